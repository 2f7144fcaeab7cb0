/* The sync service: STAT, STA2, LST2, LIST, SEND, RECV, QUIT (AOSP adb, SYNC.TXT). */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/phone/phone.h"

enum { DATA_MAX = 64 * 1024 };

bool phone_path(const char *root, const char *path, bool follow, char *out, size_t n)
{
    char rest[PATH_MAX], next[2 * PATH_MAX], link[PATH_MAX];
    size_t base = strlen(root);
    if ((size_t)snprintf(rest, sizeof rest, "%s", path) >= sizeof rest || base >= n)
        return false;
    memcpy(out, root, base + 1);
    for (int links = 0; rest[0] != '\0';) {
        char *part = rest + strspn(rest, "/");
        size_t len = strcspn(part, "/"), at = strlen(out);
        if (len == 0)
            break;
        bool last = part[len + strspn(part + len, "/")] == '\0';
        if (len == 2 && memcmp(part, "..", 2) == 0) {
            while (at > base && out[--at] != '/')
                ;
            out[at] = '\0';
        } else if (!(len == 1 && *part == '.')) {
            if ((size_t)snprintf(out + at, n - at, "/%.*s", (int)len, part) >= n - at)
                return false;
            ssize_t m = last && !follow ? -1 : readlink(out, link, sizeof link - 1);
            if (m > 0) {
                if (++links > 16)
                    return false;
                link[m] = '\0';
                out[link[0] == '/' ? base : at] = '\0';
                snprintf(next, sizeof next, "%s/%s", link, part + len);
                if ((size_t)snprintf(rest, sizeof rest, "%s", next) >= sizeof rest)
                    return false;
                continue;
            }
        }
        memmove(rest, part + len, strlen(part + len) + 1);
    }
    return true;
}

static void put32(unsigned char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (unsigned char)(v >> (8 * i));
}

static uint32_t get32(const unsigned char *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void put64(unsigned char *p, uint64_t v)
{
    put32(p, (uint32_t)v);
    put32(p + 4, (uint32_t)(v >> 32));
}

static void reply(int fd, const char *id, const char *text)
{
    unsigned char head[8];
    memcpy(head, id, 4);
    put32(head + 4, (uint32_t)strlen(text));
    if (!phone_write(fd, head, 8) || !phone_write(fd, text, strlen(text)))
        _exit(1);
}

static void fail(const phone *p, int fd, const char *why)
{
    char text[512];
    snprintf(text, sizeof text, "%s%s", p->control->reason, why);
    reply(fd, "FAIL", text);
}

static void stat_v1(const phone *p, int fd, const char *path)
{
    char real[PATH_MAX];
    struct stat st = {0};
    if (!phone_path(p->root, path, false, real, sizeof real) || lstat(real, &st) != 0)
        st = (struct stat){0};
    unsigned char out[16] = "STAT";
    put32(out + 4, st.st_mode);
    put32(out + 8, (uint32_t)st.st_size);
    put32(out + 12, (uint32_t)st.st_mtime);
    if (!phone_write(fd, out, sizeof out))
        _exit(1);
}

static void stat_v2(const phone *p, int fd, const char *id, const char *path)
{
    char real[PATH_MAX];
    bool follow = memcmp(id, "STA2", 4) == 0;
    struct stat st = {0};
    uint32_t error = 0;
    if (!phone_path(p->root, path, follow, real, sizeof real))
        error = ELOOP;
    else if ((follow ? stat(real, &st) : lstat(real, &st)) != 0)
        error = (uint32_t)errno;
    unsigned char out[72] = {0};
    memcpy(out, id, 4);
    put32(out + 4, error);
    if (error == 0) {
        put64(out + 8, st.st_dev);
        put64(out + 16, st.st_ino);
        put32(out + 24, st.st_mode);
        put32(out + 28, (uint32_t)st.st_nlink);
        put32(out + 32, 2000); /* shell */
        put32(out + 36, 2000);
        put64(out + 40, (uint64_t)st.st_size);
        put64(out + 48, (uint64_t)st.st_atime);
        put64(out + 56, (uint64_t)st.st_mtime);
        put64(out + 64, (uint64_t)st.st_ctime);
    }
    if (!phone_write(fd, out, sizeof out))
        _exit(1);
}

static void list(const phone *p, int fd, const char *path)
{
    char real[PATH_MAX], name[2 * PATH_MAX];
    unsigned char head[20];
    struct dirent *d;
    DIR *dir = phone_path(p->root, path, true, real, sizeof real) ? opendir(real) : NULL;
    while (dir != NULL && (d = readdir(dir)) != NULL) {
        struct stat st;
        snprintf(name, sizeof name, "%s/%s", real, d->d_name);
        if (lstat(name, &st) != 0)
            continue;
        memcpy(head, "DENT", 4);
        put32(head + 4, st.st_mode);
        put32(head + 8, (uint32_t)st.st_size);
        put32(head + 12, (uint32_t)st.st_mtime);
        put32(head + 16, (uint32_t)strlen(d->d_name));
        if (!phone_write(fd, head, sizeof head) || !phone_write(fd, d->d_name, strlen(d->d_name)))
            _exit(1);
    }
    if (dir != NULL)
        closedir(dir);
    memset(head, 0, sizeof head);
    memcpy(head, "DONE", 4);
    if (!phone_write(fd, head, sizeof head))
        _exit(1);
}

static void make_parents(char *real, size_t base)
{
    for (char *s = real + base + 1; (s = strchr(s, '/')) != NULL; s++) {
        *s = '\0';
        mkdir(real, 0775);
        *s = '/';
    }
}

/* "path,mode": the file is taken whatever goes wrong with it, then the answer says what did. */
static void receive_file(const phone *p, int fd, char *arg)
{
    static uint64_t taken; /* in all, for full_after */
    char real[PATH_MAX], why[256] = "";
    unsigned char head[8];
    static char data[DATA_MAX];
    char *comma = strrchr(arg, ',');
    phone_note(p, "SEND ", arg);
    mode_t mode = comma != NULL ? (mode_t)strtoul(comma + 1, NULL, 10) : 0644;
    if (p->control->noexec)
        mode &= 0666;
    if (comma != NULL)
        *comma = '\0';
    int out = -1;
    if (phone_path(p->root, arg, true, real, sizeof real)) {
        make_parents(real, strlen(p->root));
        unlink(real);
        out = open(real, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode & 0777);
    }
    if (out < 0)
        snprintf(why, sizeof why, "couldn't create file: %s", strerror(errno));
    for (;;) {
        if (!phone_read(fd, head, 8))
            _exit(1);
        uint32_t n = get32(head + 4);
        if (memcmp(head, "DONE", 4) == 0)
            break;
        if (memcmp(head, "DATA", 4) != 0 || n > DATA_MAX || !phone_read(fd, data, n))
            _exit(1);
        taken += n;
        if (why[0] == '\0' && p->control->full_after > 0 && taken > p->control->full_after)
            snprintf(why, sizeof why, "write failed: %s", strerror(ENOSPC));
        else if (why[0] == '\0' && !phone_write(out, data, n))
            snprintf(why, sizeof why, "write failed: %s", strerror(errno));
        if (why[0] != '\0' && out >= 0) {
            fail(p, fd, why); /* adbd answers at once; the sender may look, or go on */
            close(out);
            unlink(real);
            out = -1;
        }
    }
    if (out >= 0) {
        struct timespec t[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = get32(head + 4)}};
        fchmod(out, mode & 0777);
        futimens(out, t);
        close(out);
        reply(fd, "OKAY", "");
    } else if (strncmp(why, "couldn't", 8) == 0) {
        fail(p, fd, why);
    }
}

static void send_file(const phone *p, int fd, const char *path)
{
    char real[PATH_MAX];
    static unsigned char data[8 + DATA_MAX];
    int in =
        phone_path(p->root, path, true, real, sizeof real) ? open(real, O_RDONLY | O_CLOEXEC) : -1;
    if (in < 0) {
        char why[256];
        snprintf(why, sizeof why, "open failed: %s", strerror(errno));
        fail(p, fd, why);
        return;
    }
    for (ssize_t n; (n = read(in, data + 8, DATA_MAX)) > 0;) {
        memcpy(data, "DATA", 4);
        put32(data + 4, (uint32_t)n);
        if (!phone_write(fd, data, 8 + (size_t)n))
            _exit(1);
    }
    close(in);
    memset(data + 8, 0, DATA_MAX);
    for (uint64_t left = p->control->extra; left > 0;) {
        size_t now = left < DATA_MAX ? (size_t)left : DATA_MAX;
        memcpy(data, "DATA", 4);
        put32(data + 4, (uint32_t)now);
        if (!phone_write(fd, data, 8 + now))
            _exit(1);
        left -= now;
    }
    reply(fd, "DONE", "");
}

_Noreturn void phone_sync(const phone *p, int fd)
{
    unsigned char head[8];
    char arg[1025];
    while (phone_read(fd, head, 8)) {
        const char *id = (const char *)head;
        uint32_t n = get32(head + 4);
        if (n >= sizeof arg || !phone_read(fd, arg, n))
            _exit(1);
        arg[n] = '\0';
        if (memcmp(id, "STAT", 4) == 0)
            stat_v1(p, fd, arg);
        else if (memcmp(id, "STA2", 4) == 0 || memcmp(id, "LST2", 4) == 0)
            stat_v2(p, fd, id, arg);
        else if (memcmp(id, "LIST", 4) == 0)
            list(p, fd, arg);
        else if (memcmp(id, "SEND", 4) == 0)
            receive_file(p, fd, arg);
        else if (memcmp(id, "RECV", 4) == 0)
            send_file(p, fd, arg);
        else
            _exit(memcmp(id, "QUIT", 4) != 0);
    }
    _exit(0);
}
