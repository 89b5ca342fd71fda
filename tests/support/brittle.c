/* Loaded before the C library (LD_PRELOAD): reads, writes and syncs of chosen files fail or wait when a test says so. See
   brittle.py. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { SYNC = 1, WRITE = 2, READ = 4 };

static int kinds, code, tell = -1, go_on = -1;
static char part[PATH_MAX];
static long first, last;
static atomic_long seen;
static char paths[1 << 16];
static atomic_size_t paths_end;

/* Calls of these kinds for files whose path has `named` in it: the first is 0; those from `from` to `to` fail with `error`. */
void brittle_begin(int which, const char *named, long from, long to, int error) {
    kinds = 0;
    snprintf(part, sizeof part, "%s", named);
    first = from, last = to, code = error;
    atomic_store(&seen, 0);
    memset(paths, 0, sizeof paths);
    atomic_store(&paths_end, 0);
    kinds = which;
}

/* From now on each call that is counted writes a byte to `from`, and waits for one from `until` before it is made. */
void brittle_hold(int from, int until) { tell = from, go_on = until; }

long brittle_seen(void) { return atomic_load(&seen); }

/* The paths of the files of the calls counted, a line each; of the first ones, if they are very many. */
const char *brittle_paths(void) { return paths; }

static void note(const char *path) {
    size_t length = strlen(path), at = atomic_fetch_add(&paths_end, length + 1);
    if (at + length + 2 > sizeof paths) return;
    memcpy(paths + at, path, length);
    paths[at + length] = '\n';
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int fails(int kind, int descriptor) {
    char link[64], path[PATH_MAX];
    if (!(kinds & kind)) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    if (!strstr(path, part)) return 0;
    note(path);
    long number = atomic_fetch_add(&seen, 1);
    char byte = 0;
    if (tell >= 0 && (REAL(write)(tell, &byte, 1) != 1 || REAL(read)(go_on, &byte, 1) != 1)) _exit(70);
    if (number < first || number > last) return 0;
    errno = code;
    return 1;
}

int fsync(int descriptor) { return fails(SYNC, descriptor) ? -1 : REAL(fsync)(descriptor); }

int fdatasync(int descriptor) { return fails(SYNC, descriptor) ? -1 : REAL(fdatasync)(descriptor); }

ssize_t write(int descriptor, const void *data, size_t length) {
    return fails(WRITE, descriptor) ? -1 : REAL(write)(descriptor, data, length);
}

ssize_t pwrite(int descriptor, const void *data, size_t length, off_t at) {
    return fails(WRITE, descriptor) ? -1 : REAL(pwrite)(descriptor, data, length, at);
}

ssize_t pwrite64(int descriptor, const void *data, size_t length, off64_t at) {
    return fails(WRITE, descriptor) ? -1 : REAL(pwrite64)(descriptor, data, length, at);
}

ssize_t read(int descriptor, void *data, size_t length) {
    return fails(READ, descriptor) ? -1 : REAL(read)(descriptor, data, length);
}

ssize_t pread(int descriptor, void *data, size_t length, off_t at) {
    return fails(READ, descriptor) ? -1 : REAL(pread)(descriptor, data, length, at);
}

ssize_t pread64(int descriptor, void *data, size_t length, off64_t at) {
    return fails(READ, descriptor) ? -1 : REAL(pread64)(descriptor, data, length, at);
}
