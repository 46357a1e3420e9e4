/* Gives a process another wall clock: LD_PRELOAD it, with the file of the offset in TEST_WALL_CLOCK.
 *
 * The file holds nanoseconds as one native 64-bit integer. It is mapped, so a step is seen by all processes at once,
 * costs nothing to look up, and is safe in signal handlers. Readings of the wall clock get the offset added; deadlines
 * on the wall clock get it taken away before the kernel sees them. Monotonic clocks are left alone.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static const volatile int64_t none = 0;
static const volatile int64_t *offset = &none;

static struct timespec moved(struct timespec at, int64_t by)
{
    int64_t nanoseconds = at.tv_nsec + by % SECOND;
    at.tv_sec += by / SECOND + (nanoseconds >= SECOND) - (nanoseconds < 0);
    at.tv_nsec = (nanoseconds + SECOND) % SECOND;
    return at;
}

static int is_wall(clockid_t clock)
{
    return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI || clock == CLOCK_REALTIME_ALARM;
}

/* What the kernel shall wait for: a deadline that lies before 1970 has passed. */
static const struct timespec *due(clockid_t clock, const struct timespec *at, struct timespec *room)
{
    if (!at || !is_wall(clock) || at->tv_nsec < 0 || at->tv_nsec >= SECOND)
        return at;
    *room = moved(*at, -*offset);
    if (room->tv_sec < 0)
        *room = (struct timespec){0, 1};
    return room;
}

/* The next function of this name; of conditions there is a second one for programs of the last century. */
#define REAL(result, name, ...)                                                     \
    static result (*real)(__VA_ARGS__);                                             \
    if (!real) {                                                                    \
        void *found = dlvsym(RTLD_NEXT, #name, "GLIBC_2.3.2");                      \
        real = (result(*)(__VA_ARGS__))(found ? found : dlsym(RTLD_NEXT, #name));   \
    }

int clock_gettime(clockid_t clock, struct timespec *now)
{
    REAL(int, clock_gettime, clockid_t, struct timespec *)
    int status = real ? real(clock, now) : (int)syscall(SYS_clock_gettime, clock, now);
    if (!status && is_wall(clock))
        *now = moved(*now, *offset);
    return status;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    (void)zone;
    struct timespec found;
    int status = clock_gettime(CLOCK_REALTIME, &found);
    if (!status)
        *now = (struct timeval){found.tv_sec, found.tv_nsec / 1000};
    return status;
}

time_t time(time_t *now)
{
    struct timespec found;
    if (clock_gettime(CLOCK_REALTIME_COARSE, &found))
        return (time_t)-1;
    if (now)
        *now = found.tv_sec;
    return found.tv_sec;
}

int timespec_get(struct timespec *now, int base)
{
    return base == TIME_UTC && !clock_gettime(CLOCK_REALTIME, now) ? base : 0;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *at, struct timespec *rest)
{
    REAL(int, clock_nanosleep, clockid_t, int, const struct timespec *, struct timespec *)
    struct timespec room;
    return real(clock, flags, flags & TIMER_ABSTIME ? due(clock, at, &room) : at, rest);
}

/* glibc keeps a condition's clock in this bit; a monotonic one is the caller's own business. */
static clockid_t clock_of(pthread_cond_t *condition)
{
    return condition->__data.__wrefs & 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *at)
{
    REAL(int, pthread_cond_timedwait, pthread_cond_t *, pthread_mutex_t *, const struct timespec *)
    struct timespec room;
    return real(condition, mutex, due(clock_of(condition), at, &room));
}

int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *at)
{
    REAL(int, pthread_cond_clockwait, pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *)
    struct timespec room;
    return real(condition, mutex, clock, due(clock, at, &room));
}

int timerfd_settime(int file, int flags, const struct itimerspec *wanted, struct itimerspec *before)
{
    REAL(int, timerfd_settime, int, int, const struct itimerspec *, struct itimerspec *)
    /* which clock it counts by is not known here: an instant long after any machine's start is the wall clock's */
    struct itimerspec changed = *wanted;
    struct timespec room;
    if (flags & TFD_TIMER_ABSTIME && wanted->it_value.tv_sec > 1000000000)
        changed.it_value = *due(CLOCK_REALTIME, &wanted->it_value, &room);
    return real(file, flags, &changed, before);
}

/* Waits for one thing until an instant, on the wall clock or on a clock that is named. */
#define WAITS(name, thing)                                                          \
    int name(thing *item, const struct timespec *at)                                \
    {                                                                               \
        REAL(int, name, thing *, const struct timespec *)                           \
        struct timespec room;                                                       \
        return real(item, due(CLOCK_REALTIME, at, &room));                          \
    }
#define WAITS_BY(name, thing)                                                       \
    int name(thing *item, clockid_t clock, const struct timespec *at)               \
    {                                                                               \
        REAL(int, name, thing *, clockid_t, const struct timespec *)                \
        struct timespec room;                                                       \
        return real(item, clock, due(clock, at, &room));                            \
    }

WAITS(sem_timedwait, sem_t)
WAITS_BY(sem_clockwait, sem_t)
WAITS(pthread_mutex_timedlock, pthread_mutex_t)
WAITS_BY(pthread_mutex_clocklock, pthread_mutex_t)
WAITS(pthread_rwlock_timedrdlock, pthread_rwlock_t)
WAITS_BY(pthread_rwlock_clockrdlock, pthread_rwlock_t)
WAITS(pthread_rwlock_timedwrlock, pthread_rwlock_t)
WAITS_BY(pthread_rwlock_clockwrlock, pthread_rwlock_t)

__attribute__((constructor)) static void look_up(void)
{
    const char *path = getenv("TEST_WALL_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *found = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (found != MAP_FAILED)
        offset = found;
    /* finds the real one now, and not in a signal handler */
    time(NULL);
}
