/* A wall clock that can be set for one process: cc -shared -fPIC -o jumping_clock.so jumping_clock.c
 *
 * With LD_PRELOAD=jumping_clock.so the process reads a wall clock that is ahead of the machine's by the seconds in
 * the file $JUMPING_CLOCK (one int64), whenever that changes. Waits until a time of day end as under a clock that was
 * really set: at once after a jump ahead, later after one back. Monotonic clocks are left alone, as settimeofday does.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SLICE_NS 20000000 /* so long after a jump a wait may go on unaware of it */
#define LATER 500000000   /* a time of day in seconds is beyond this, a time since boot below */

static volatile int64_t *ahead;
static int (*gettime)(clockid_t, struct timespec *);
static long (*call)(long, ...);

__attribute__((constructor)) static void begin(void) {
    int file = open(getenv("JUMPING_CLOCK"), O_RDONLY);
    void *page = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
    if (page == MAP_FAILED) abort();
    close(file);
    gettime = dlsym(RTLD_NEXT, "clock_gettime");
    call = dlsym(RTLD_NEXT, "syscall");
    ahead = page;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    if (!gettime) gettime = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = gettime(clock, at);
    if (!failed && ahead && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) at->tv_sec += *ahead;
    return failed;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}

/* Sets the next look at the clock, on the monotonic one; 0 when the time of day `until` has come. */
static int look(const struct timespec *until, struct timespec *next) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t left = (until->tv_sec - now.tv_sec) * INT64_C(1000000000) + until->tv_nsec - now.tv_nsec;
    if (left <= 0) return 0;
    if (left > SLICE_NS) left = SLICE_NS;
    clock_gettime(CLOCK_MONOTONIC, next);
    left += next->tv_nsec;
    next->tv_sec += left / 1000000000;
    next->tv_nsec = left % 1000000000;
    return 1;
}

int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict lock,
                           const struct timespec *restrict until) {
    struct timespec next = *until;
    if (until->tv_sec < LATER) return pthread_cond_clockwait(cond, lock, CLOCK_MONOTONIC, until);
    if (!look(until, &next)) return ETIMEDOUT;
    int code = pthread_cond_clockwait(cond, lock, CLOCK_MONOTONIC, &next);
    return code == ETIMEDOUT ? 0 : code; /* woken for nothing: the caller looks and waits again */
}

int sem_timedwait(sem_t *restrict sem, const struct timespec *restrict until) {
    struct timespec next;
    while (look(until, &next)) {
        if (!sem_clockwait(sem, CLOCK_MONOTONIC, &next)) return 0;
        if (errno != ETIMEDOUT) return -1;
    }
    errno = ETIMEDOUT;
    return -1;
}

long syscall(long number, ...) {
    va_list given;
    long a[6];
    va_start(given, number);
    for (int i = 0; i < 6; i++) a[i] = va_arg(given, long);
    va_end(given);
    struct timespec next;
    const struct timespec *until = (const struct timespec *)a[3];
    if (number != SYS_futex || !(a[1] & FUTEX_CLOCK_REALTIME) || !until) {
        return call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    }
    if (!look(until, &next)) {
        errno = ETIMEDOUT;
        return -1;
    }
    long code = call(number, a[0], a[1] & ~FUTEX_CLOCK_REALTIME, a[2], &next, a[4], a[5]);
    if (code && errno == ETIMEDOUT) errno = EINTR;
    return code;
}
