/* The n-th call that touches a file below a folder fails: a full disk, or a broken one.

   Loaded by LD_PRELOAD into a process, where it does nothing until failing_start. Counted are
   calls of whoever makes them: Python, SQLite, polars. A descriptor counts where it was opened
   below the folder. */

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MOST = 65536 };
static atomic_char ours[MOST];
static char folder[4096];
static atomic_long calls;
static long fail_at;
static int forever, report = -1;

#define REAL(name) ((__typeof__(&name))real(&held_##name, #name))
#define HELD(name) static void *held_##name

static void *real(void **held, const char *name) {
  if (!*held) *held = dlsym(RTLD_NEXT, name);
  return *held;
}

HELD(open); HELD(openat); HELD(read); HELD(pread); HELD(write); HELD(pwrite); HELD(writev);
HELD(fsync); HELD(fdatasync); HELD(rename); HELD(renameat); HELD(link); HELD(linkat);
HELD(unlink); HELD(unlinkat); HELD(rmdir); HELD(mkdir); HELD(mkdirat); HELD(ftruncate);
HELD(opendir); HELD(close); HELD(copy_file_range);
static void *held_renameat2, *held_sendfile, *held_flock;

/* From the call numbered `at` (from 1) on below `below`, once or for ever; what failed first is
   written to the descriptor `to`. */
void failing_start(const char *below, long at, int all_later, int to) {
  snprintf(folder, sizeof folder, "%s", below);
  calls = 0;
  forever = all_later;
  report = to;
  fail_at = at;
}

long failing_calls(void) { return calls; }

static int is_below(int at, const char *path) {
  if (!fail_at || !path) return 0;
  if (path[0] == '/') return !strncmp(path, folder, strlen(folder));
  return at >= 0 && at < MOST && ours[at];
}

static int is_ours(int file) { return fail_at && file >= 0 && file < MOST && ours[file]; }

/* Whether this call is to fail, as `code`. */
static int fails(const char *call, const char *path, int code) {
  long now = ++calls;
  if (now < fail_at || (now > fail_at && !forever)) return 0;
  if (now == fail_at) {
    char line[5000];
    int size = snprintf(line, sizeof line, "%s %s\n", call, path ? path : "");
    REAL(write)(report, line, size);
  }
  errno = code;
  return 1;
}

static int opened(int file, int below) {
  if (file >= 0 && file < MOST) ours[file] = (char)below;
  return file;
}

#define MODE(flags)                                  \
  int mode = 0;                                      \
  if ((flags) & (O_CREAT | O_TMPFILE)) {             \
    va_list more;                                    \
    va_start(more, flags);                           \
    mode = va_arg(more, int);                        \
    va_end(more);                                    \
  }

int open(const char *path, int flags, ...) {
  MODE(flags)
  int below = is_below(AT_FDCWD, path);
  if (below && fails("open", path, flags & O_CREAT ? ENOSPC : EIO)) return -1;
  return opened(REAL(open)(path, flags, mode), below);
}

int openat(int at, const char *path, int flags, ...) {
  MODE(flags)
  int below = is_below(at, path);
  if (below && fails("open", path, flags & O_CREAT ? ENOSPC : EIO)) return -1;
  return opened(REAL(openat)(at, path, flags, mode), below);
}

int open64(const char *path, int flags, ...) {
  MODE(flags)
  return open(path, flags | O_LARGEFILE, mode);
}

int openat64(int at, const char *path, int flags, ...) {
  MODE(flags)
  return openat(at, path, flags | O_LARGEFILE, mode);
}

int close(int file) {
  if (file >= 0 && file < MOST) ours[file] = 0;
  return REAL(close)(file);
}

#define ON_FILE(type, name, code, given, passed)     \
  type name given {                                  \
    if (is_ours(file) && fails(#name, 0, code)) return -1; \
    return REAL(name) passed;                        \
  }

ON_FILE(ssize_t, read, EIO, (int file, void *to, size_t size), (file, to, size))
ON_FILE(ssize_t, pread, EIO, (int file, void *to, size_t size, off_t at), (file, to, size, at))
ON_FILE(ssize_t, write, ENOSPC, (int file, const void *of, size_t size), (file, of, size))
ON_FILE(ssize_t, pwrite, ENOSPC, (int file, const void *of, size_t size, off_t at),
        (file, of, size, at))
ON_FILE(ssize_t, writev, ENOSPC, (int file, const struct iovec *of, int count), (file, of, count))
ON_FILE(int, fsync, EIO, (int file), (file))
ON_FILE(int, fdatasync, EIO, (int file), (file))
ON_FILE(int, ftruncate, EIO, (int file, off_t size), (file, size))

ssize_t pread64(int file, void *to, size_t size, off64_t at) { return pread(file, to, size, at); }
ssize_t pwrite64(int file, const void *of, size_t size, off64_t at) {
  return pwrite(file, of, size, at);
}
int ftruncate64(int file, off64_t size) { return ftruncate(file, size); }

ssize_t copy_file_range(int from, off64_t *a, int file, off64_t *b, size_t size, unsigned flags) {
  if (is_ours(file) && fails("copy_file_range", 0, ENOSPC)) return -1;
  return REAL(copy_file_range)(from, a, file, b, size, flags);
}

ssize_t sendfile(int file, int from, off_t *at, size_t size) {
  if (is_ours(file) && fails("sendfile", 0, ENOSPC)) return -1;
  return ((ssize_t(*)(int, int, off_t *, size_t))real(&held_sendfile, "sendfile"))(
      file, from, at, size);
}
ssize_t sendfile64(int file, int from, off64_t *at, size_t size) {
  return sendfile(file, from, at, size);
}

int flock(int file, int how) {
  if (is_ours(file) && fails("flock", 0, ENOLCK)) return -1;
  return ((int (*)(int, int))real(&held_flock, "flock"))(file, how);
}

#define ON_PATH(type, name, code, none, at, given, passed) \
  type name given {                                  \
    if (is_below(at, path) && fails(#name, path, code)) return none; \
    return REAL(name) passed;                        \
  }

ON_PATH(int, unlink, EIO, -1, AT_FDCWD, (const char *path), (path))
ON_PATH(int, rmdir, EIO, -1, AT_FDCWD, (const char *path), (path))
ON_PATH(int, unlinkat, EIO, -1, at, (int at, const char *path, int flags), (at, path, flags))
ON_PATH(int, mkdir, ENOSPC, -1, AT_FDCWD, (const char *path, mode_t mode), (path, mode))
ON_PATH(int, mkdirat, ENOSPC, -1, at, (int at, const char *path, mode_t mode), (at, path, mode))
ON_PATH(int, rename, EIO, -1, AT_FDCWD, (const char *path, const char *to), (path, to))
ON_PATH(int, renameat, EIO, -1, at, (int at, const char *path, int b, const char *to),
        (at, path, b, to))
ON_PATH(int, link, ENOSPC, -1, AT_FDCWD, (const char *path, const char *to), (path, to))
ON_PATH(int, linkat, ENOSPC, -1, at,
        (int at, const char *path, int b, const char *to, int flags), (at, path, b, to, flags))
ON_PATH(DIR *, opendir, EIO, 0, AT_FDCWD, (const char *path), (path))

int renameat2(int at, const char *path, int b, const char *to, unsigned flags) {
  if (is_below(at, path) && fails("rename", path, EIO)) return -1;
  return ((int (*)(int, const char *, int, const char *, unsigned))real(
      &held_renameat2, "renameat2"))(at, path, b, to, flags);
}
