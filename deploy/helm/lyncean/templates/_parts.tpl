{{/* What several templates use. Each part is written as `orchestrator submit` renders it; a test compares them. */}}

{{- define "lyncean.checked" -}}
{{- $given := list -}}
{{- range $key := list "image" "path" "url" "endpoint" -}}
{{- if index $.Values.model $key -}}{{- $given = append $given $key -}}{{- end -}}
{{- end -}}
{{- if ne (len $given) 1 -}}
{{- fail (printf "model: give exactly one of image, path, url and endpoint, not %s" (default "none" (join " and " $given))) -}}
{{- end -}}
{{- if and .Values.model.args (not (or .Values.model.image .Values.model.path)) -}}{{- fail "model.args are arguments of model.image, or of the engine of model.path" -}}{{- end -}}
{{- if and .Values.model.url (not .Values.model.name) -}}{{- fail "model.url needs model.name, the name that the API has for it" -}}{{- end -}}
{{- if and (include "lyncean.engine" .) (not .Values.model.gpus) -}}{{- fail (printf "model.gpus 0: %s runs the model on GPUs" .Values.model.engine) -}}{{- end -}}
{{- if and (gt (int .Values.model.nodes) 1) (not (include "lyncean.engine" .)) -}}{{- fail "model.nodes: give model.path, and model.engine vllm or sglang" -}}{{- end -}}
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

{{- define "lyncean.toolToken" -}}
- name: LYNCEAN_TOOL_TOKEN
  valueFrom:
    secretKeyRef:
      key: tool-token
      name: lyncean-token
      optional: true
{{- end -}}

{{- define "lyncean.probes" -}}
{{- if not .delay }}
startupProbe:
  failureThreshold: 360
  grpc:
    port: {{ .port }}
    service: {{ .service }}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end }}
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
  {{- if .delay }}
  initialDelaySeconds: {{ .delay }}
  {{- end }}
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
    {{- range .Values.judges }}
    - {{ printf "--judge=%s" . | quote }}
    {{- end }}
  env:
    {{- include "lyncean.token" . | nindent 4 }}
    {{- if .Values.judges }}
    - name: LYNCEAN_JUDGE_KEY
      valueFrom:
        secretKeyRef:
          key: key
          name: lyncean-judge
          optional: true
    {{- end }}
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

{{/* The engine beside our server, "" where our server or an image runs the model. */}}
{{- define "lyncean.engine" -}}
{{- if and .Values.model.path (ne .Values.model.engine "transformers") -}}{{ .Values.model.engine }}{{- end -}}
{{- end -}}

{{/* What the container that runs the model has beside its own: variables, resources and mounts. */}}
{{- define "lyncean.model-env" -}}
{{- range $name, $value := .Values.model.env }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- range $name, $place := .Values.model.secretEnv }}
- name: {{ $name }}
  valueFrom:
    secretKeyRef:
      key: {{ last (splitList ":" $place) }}
      name: {{ first (splitList ":" $place) }}
{{- end }}
{{- end -}}

{{- define "lyncean.model-resources" -}}
limits:
  memory: {{ .Values.model.memory }}
  {{- if .Values.model.gpus }}
  nvidia.com/gpu: {{ .Values.model.gpus | quote }}
  {{- end }}
requests:
  cpu: {{ .Values.model.cpu | quote }}
  memory: {{ .Values.model.memory }}
{{- end -}}

{{- define "lyncean.model-mounts" -}}
{{- $names := keys .Values.model.mounts | sortAlpha -}}
{{- range $index, $claim := $names }}
- mountPath: {{ index $.Values.model.mounts $claim }}
  name: model-server-mount-{{ $index }}
  readOnly: true
{{- end }}
{{- if and .Values.model.image (gt (int .Values.model.gpus) 1) }}
- mountPath: /dev/shm
  name: model-server-shared-memory
{{- end }}
{{- end -}}

{{- define "lyncean.model-volumes" -}}
{{- $names := keys .Values.model.mounts | sortAlpha -}}
{{- range $index, $claim := $names }}
- name: model-server-mount-{{ $index }}
  persistentVolumeClaim:
    claimName: {{ $claim }}
    readOnly: true
{{- end }}
{{- if and .Values.model.image (gt (int .Values.model.gpus) 1) }}
- name: model-server-shared-memory
  emptyDir:
    medium: Memory
{{- end }}
{{- if include "lyncean.engine" . }}
- name: model-server-shm
  emptyDir:
    medium: Memory
    sizeLimit: 8Gi
{{- end }}
{{- end -}}

{{/* vLLM or SGLang; our server is its proxy in the same pod. */}}
{{- define "lyncean.engine-container" -}}
{{- $model := .Values.model -}}
{{- $vllm := eq $model.engine "vllm" -}}
- name: {{ $model.engine }}
  restartPolicy: Always
  image: {{ include "lyncean.plugins.registry" . }}{{ ternary "vllm/vllm-openai:v0.33.0" "lmsysorg/sglang:v0.5.15" $vllm }}
  {{- if not $vllm }}
  command: [python3, -m, sglang.launch_server]
  {{- end }}
  args:
    - --host=0.0.0.0
    {{- if $vllm }}
    - --port=8000
    - --model=$(MODEL)
    - --max-model-len=16384
    - --generation-config=vllm
    - --limit-mm-per-prompt={"image":16}
    {{- else }}
    - --port=30000
    - --model-path=$(MODEL)
    - --sampling-defaults=openai
    {{- end }}
    {{- $nodes := int $model.nodes }}
    {{- if and (or (gt (int $model.gpus) 1) (gt $nodes 1)) (not (regexMatch "(^| )--?(tensor-parallel|pipeline-parallel|data-parallel|tp|pp|dp|ep)(-size)?( |=|$)" (join " " $model.args))) }}
    - --{{ ternary "tensor-parallel" "tp" $vllm }}-size={{ ternary $model.gpus (mul $model.gpus $nodes) $vllm }}
    {{- if and $vllm (gt $nodes 1) }}
    - --pipeline-parallel-size={{ $nodes }}
    {{- end }}
    {{- end }}
    {{- if gt $nodes 1 }}
    - --nnodes=$(LWS_GROUP_SIZE)
    - --node-rank=$(LWS_WORKER_INDEX)
    - --{{ ternary "master-addr=$(LWS_LEADER_ADDRESS)" "dist-init-addr=$(LWS_LEADER_ADDRESS):20000" $vllm }}
    {{- end }}
    {{- range $model.args }}
    - {{ . | quote }}
    {{- end }}
  envFrom:
    - configMapRef:
        name: lyncean-model-{{ .Release.Name }}
  env:
    - name: HF_HUB_OFFLINE
      value: "1"
    - name: HOME
      value: /tmp
    - name: USER
      value: {{ $model.engine }}
    {{- if $vllm }}
    - name: VLLM_CACHE_ROOT
      value: /tmp/vllm
    - name: VLLM_NO_USAGE_STATS
      value: "1"
    {{- end }}
    {{- include "lyncean.model-env" . | nindent 4 }}
  ports:
    - name: openai
      containerPort: {{ ternary 8000 30000 $vllm }}
  {{- if gt $nodes 1 }}
  startupProbe:
    failureThreshold: 720
    httpGet:
      path: /health
      port: openai
    periodSeconds: 5
    timeoutSeconds: 5
  {{- end }}
  livenessProbe:
    failureThreshold: 4
    httpGet:
      path: /health
      port: openai
    {{- if le $nodes 1 }}
    initialDelaySeconds: 1800
    {{- end }}
    periodSeconds: 15
    timeoutSeconds: 10
  resources:
    {{- include "lyncean.model-resources" . | nindent 4 }}
  securityContext:
    {{- include "lyncean.hardened" . | nindent 4 }}
  volumeMounts:
    - mountPath: /models
      name: model-server-models
      readOnly: true
    - mountPath: /tmp
      name: model-server-tmp
    - mountPath: /dev/shm
      name: model-server-shm
    {{- include "lyncean.model-mounts" . | nindent 4 }}
{{ end -}}

{{- define "lyncean.model-server" -}}
{{- $model := .Values.model -}}
{{- $engine := include "lyncean.engine" . -}}
{{- $apart := gt (int $model.nodes) 1 -}}
{{- if and $engine (not $apart) }}{{ include "lyncean.engine-container" . }}{{ end -}}
- name: model-server
  {{- if not $apart }}
  restartPolicy: Always
  {{- end }}
  {{- if $model.image }}
  image: {{ $model.image }}
  args:
    {{- toYaml $model.args | nindent 4 }}
  {{- else }}
  image: {{ include "lyncean.plugins.registry" . }}lyncean-model-server{{ if or $model.url $engine }}-slim{{ end }}:{{ include "lyncean.tag" . }}
  args:
    - serve
    - --host=0.0.0.0
    - --port=50051
    {{- if $model.url }}
    - --backend=openai
    - --base-url=$(BASE_URL)
    - --model=$(MODEL)
    {{- else if $engine }}
    - --backend=openai
    - --base-url=http://127.0.0.1:{{ ternary 8000 30000 (eq $engine "vllm") }}/v1
    - --model=$(MODEL)
    - --max-concurrency=64
    {{- else }}
    - --backend=transformers
    - --model=$(MODEL)
    - --device={{ if gt (int $model.gpus) 1 }}auto{{ else if $model.gpus }}cuda{{ else }}cpu{{ end }}
    {{- end }}
    - --metrics-port=9090
    - --grace=120
    {{- if not (or $model.url $engine) }}
    {{- range $model.args }}
    - {{ . | quote }}
    {{- end }}
    {{- end }}
  envFrom:
    - configMapRef:
        name: lyncean-model-{{ .Release.Name }}
  {{- end }}
  env:
    {{- if not $engine }}
    {{- include "lyncean.model-env" . | nindent 4 }}
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
    {{- if $engine }}
    - name: OPENAI_API_KEY
      value: none
    {{- end }}
    {{- end }}
    {{- include "lyncean.token" . | nindent 4 }}
  ports:
    - name: grpc
      containerPort: 50051
    - name: metrics
      containerPort: 9090
  {{- include "lyncean.probes" (dict "port" 50051 "service" "lyncean.model.v1.ModelService" "delay" (ternary 0 1800 $apart)) | nindent 2 }}
  resources:
    {{- if or $model.url $engine }}
    limits:
      memory: 2Gi
    requests:
      cpu: {{ if $engine }}"1"{{ else }}500m{{ end }}
      memory: 512Mi
    {{- else }}
    {{- include "lyncean.model-resources" . | nindent 4 }}
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
    {{- if not $engine }}
    {{- include "lyncean.model-mounts" . | nindent 4 }}
    {{- end }}
{{- end -}}

{{/* They listen in the pod alone. */}}
{{- define "lyncean.tools" -}}
{{- range $number, $words := .Values.tools }}
- name: tools-{{ $number }}
  restartPolicy: Always
  image: {{ include "lyncean.plugins.registry" $ }}lyncean-tool-server:{{ include "lyncean.tag" $ }}
  args:
    {{- $place := dict "host" (printf "--host=127.0.0.1") "port" (printf "--port=%d" (add 50053 $number)) }}
    {{- range $words }}
    {{- if and (eq . "--") $place.host }}
    - {{ $place.host }}
    - {{ $place.port }}
    {{- $_ := set $place "host" "" }}
    {{- end }}
    - {{ . | quote }}
    {{- end }}
    {{- if $place.host }}
    - {{ $place.host }}
    - {{ $place.port }}
    {{- end }}
  resources:
    limits:
      memory: 4Gi
    requests:
      cpu: 500m
      memory: 512Mi
  securityContext:
    {{- include "lyncean.hardened" $ | nindent 4 }}
  volumeMounts:
    - mountPath: /tmp
      name: tools-{{ $number }}
{{- end }}
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
