{{/* What several templates use. Each part is written as `orchestrator submit` renders it; a test compares them. */}}

{{- define "lyncean.checked" -}}
{{- $given := list -}}
{{- range $key := list "image" "path" "url" "endpoint" -}}
{{- if index $.Values.model $key -}}{{- $given = append $given $key -}}{{- end -}}
{{- end -}}
{{- if ne (len $given) 1 -}}
{{- fail (printf "model: give exactly one of image, path, url and endpoint, not %s" (default "none" (join " and " $given))) -}}
{{- end -}}
{{- if and .Values.model.args (not .Values.model.image) -}}{{- fail "model.args are arguments of model.image" -}}{{- end -}}
{{- if and .Values.model.url (not .Values.model.name) -}}{{- fail "model.url needs model.name, the name that the API has for it" -}}{{- end -}}
{{- if and .Values.model.path (gt (int .Values.model.gpus) 1) -}}{{- fail (printf "model.gpus %d: container model-server uses one GPU of model.path (--device=cuda): give 1, and shards for servers of one GPU each; model.image and model.url may serve one model on several" (int .Values.model.gpus)) -}}{{- end -}}
{{- if gt (len .Release.Name) 40 -}}{{- fail "the release's name is the run's: 40 characters at most" -}}{{- end -}}
{{- end -}}

{{- define "lyncean.labels" -}}
app.kubernetes.io/part-of: lyncean
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
lyncean.dev/run: {{ .Release.Name }}
{{- end -}}

{{- define "lyncean.plugins.registry" -}}
{{- with .Values.registry }}{{ trimSuffix "/" . }}/{{ end -}}
{{- end -}}

{{- define "lyncean.tag" -}}
{{- default .Chart.AppVersion .Values.tag -}}
{{- end -}}

{{- define "lyncean.folder" -}}
{{- trimSuffix "/" (default "/runs" .Values.out) }}/{{ .Release.Name -}}
{{- end -}}

{{- define "lyncean.hardened" -}}
allowPrivilegeEscalation: false
capabilities:
  drop:
    - ALL
readOnlyRootFilesystem: true
{{- end -}}

{{- define "lyncean.user" -}}
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
runAsGroup: 65532
runAsNonRoot: true
runAsUser: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "lyncean.token" -}}
- name: LYNCEAN_TOKEN
  valueFrom:
    secretKeyRef:
      key: token
      name: lyncean-token
      optional: true
{{- end -}}

{{- define "lyncean.probes" -}}
readinessProbe:
  grpc:
    port: {{ .port }}
    service: {{ .service }}
  periodSeconds: 5
  timeoutSeconds: 5
# Counted from when the server must have started. A startup probe would hold the pod, and its GPUs, for good.
livenessProbe:
  failureThreshold: 6
  grpc:
    port: {{ .port }}
  initialDelaySeconds: {{ .delay }}
  periodSeconds: 10
  timeoutSeconds: 5
{{- end -}}

{{- define "lyncean.environment" -}}
- configMapRef:
    name: lyncean-run-{{ .Release.Name }}
{{- if .Values.out }}
- secretRef:
    name: lyncean-storage
    optional: true
{{- end -}}
{{- end -}}

{{- define "lyncean.scorer" -}}
- name: scorer
  image: {{ include "lyncean.plugins.registry" . }}lyncean-scorer:{{ include "lyncean.tag" . }}
  restartPolicy: Always
  args:
    - serve
    - --host=0.0.0.0
    - --port=50052
    - --metrics-port=9091
    - --grace=30
    {{- if regexMatch "(?m)^--(task=(lmms|lm-eval):|set=metrics=vlmevalkit$)" (join "\n" .Values.eval) }}
    - --foreign-tasks
    {{- range .Values.eval }}
    {{- if regexMatch "^--(include-path=|trust-task-code$)" . }}
    - {{ . | quote }}
    {{- end }}
    {{- end }}
    {{- end }}
  env:
    {{- include "lyncean.token" . | nindent 4 }}
  ports:
    - containerPort: 50052
    - containerPort: 9091
  {{- include "lyncean.probes" (dict "port" 50052 "service" "lyncean.scorer.v1.ScorerService" "delay" 180) | nindent 2 }}
  resources:
    limits:
      memory: 2Gi
    requests:
      cpu: "1"
      memory: 512Mi
  securityContext:
    {{- include "lyncean.hardened" . | nindent 4 }}
  volumeMounts:
    - mountPath: /tmp
      name: scorer-tmp
{{- end -}}

{{- define "lyncean.model-server" -}}
{{- $model := .Values.model -}}
- name: model-server
  restartPolicy: Always
  {{- if $model.image }}
  image: {{ $model.image }}
  args:
    {{- toYaml $model.args | nindent 4 }}
  {{- else }}
  image: {{ include "lyncean.plugins.registry" . }}lyncean-model-server{{ if $model.url }}-slim{{ end }}:{{ include "lyncean.tag" . }}
  args:
    - serve
    - --host=0.0.0.0
    - --port=50051
    {{- if $model.url }}
    - --backend=openai
    - --base-url=$(BASE_URL)
    - --model=$(MODEL)
    {{- else }}
    - --backend=transformers
    - --model=$(MODEL)
    - --device={{ if $model.gpus }}cuda{{ else }}cpu{{ end }}
    {{- end }}
    - --metrics-port=9090
    - --grace=120
  envFrom:
    - configMapRef:
        name: lyncean-model-{{ .Release.Name }}
  {{- end }}
  env:
    {{- range $name, $value := $model.env }}
    - name: {{ $name }}
      value: {{ $value | quote }}
    {{- end }}
    {{- if $model.url }}
    - name: OPENAI_API_KEY
      valueFrom:
        secretKeyRef:
          key: key
          name: lyncean-endpoint
          optional: true
    {{- else }}
    - name: HF_HUB_OFFLINE
      value: "1"
    {{- end }}
    {{- include "lyncean.token" . | nindent 4 }}
  ports:
    - name: grpc
      containerPort: 50051
    - name: metrics
      containerPort: 9090
  {{- include "lyncean.probes" (dict "port" 50051 "service" "lyncean.model.v1.ModelService" "delay" 1800) | nindent 2 }}
  resources:
    {{- if $model.url }}
    limits:
      memory: 2Gi
    requests:
      cpu: 500m
      memory: 512Mi
    {{- else }}
    limits:
      memory: {{ $model.memory }}
      {{- if $model.gpus }}
      nvidia.com/gpu: {{ $model.gpus | quote }}
      {{- end }}
    requests:
      cpu: {{ $model.cpu | quote }}
      memory: {{ $model.memory }}
    {{- end }}
  securityContext:
    {{- include "lyncean.hardened" . | nindent 4 }}
  volumeMounts:
    {{- if $model.path }}
    - mountPath: /models
      name: model-server-models
      readOnly: true
    {{- end }}
    - mountPath: /tmp
      name: model-server-tmp
{{- end -}}

{{- define "lyncean.volumes" -}}
- name: runs
  {{- if .Values.out }}
  emptyDir: {}
  {{- else }}
  persistentVolumeClaim:
    claimName: {{ .Values.claims.runs }}
  {{- end }}
- name: tmp
  emptyDir: {}
- name: scorer-tmp
  emptyDir: {}
{{- end -}}
