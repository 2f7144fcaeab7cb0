/* The emulated phone: an adbd over TCP loopback (AOSP adb: protocol.txt, SYNC.TXT, SERVICES.TXT)
 * whose files lie below a directory and whose commands run as arm64 programs in it (proot, qemu).
 *
 * phone_adbd.c speaks the transport and carries bytes between streams and services; every service
 * is a process of its own at the other end of a socket pair. */
#ifndef PHONE_H
#define PHONE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What the phone is and what goes wrong with it: read from `name=value` lines of the control file
 * whenever it changes (phone_control.c). */
typedef struct {
    char features[256];  /* as adbd announces them */
    bool unauthorized;   /* asks for a key and accepts none */
    bool noexec;         /* files that are sent lose their execute bits */
    bool exit_lost;      /* the shell service ends without an exit packet */
    bool lets_live;      /* what a shell ran is not killed when its connection ends: its streams are closed */
    uint64_t drop_after; /* bytes of the transport, both ways; then it is cut, once. 0: never */
    uint64_t full_after; /* bytes of sync SEND; then the disk is full. 0: never */
    uint64_t extra;      /* bytes that sync RECV sends after the end of a file */
    uint64_t rate;       /* bytes per second of the link; 0: unlimited */
    char reason[256];    /* in front of what sync gives as the reason of a failure */
    uint64_t chunk;      /* most bytes a service hands over at once; 0: no limit */
} phone_control;

/* Re-reads the file if it is not the one that was read last; 1 when it was. */
int phone_control_read(const char *path, phone_control *c);

typedef struct {
    const char *root; /* directory on this machine */
    const phone_control *control;
    const char *log; /* gets a line for each service that is asked for, and each file that is sent */
} phone;

void phone_note(const phone *p, const char *what, const char *arg);

/* Services: run in a process of their own, speak on fd, never return. */
_Noreturn void phone_sync(const phone *p, int fd);
_Noreturn void phone_shell(const phone *p, int fd, const char *args, const char *command);
_Noreturn void phone_exec(const phone *p, int fd, const char *command);

/* Starts what /system/bin/setsid leaves in /.detached, under a tracer of its own: proot would not end
 * before all that it traces. Runs in a process of its own, never returns. */
_Noreturn void phone_init(const phone *p);

/* The path on this machine of a path on the phone, links followed inside the phone (all but the
 * last when !follow). false: too long, or a loop. */
bool phone_path(const char *root, const char *path, bool follow, char *out, size_t n);

/* All of the bytes, or false. */
bool phone_read(int fd, void *p, size_t n);
bool phone_write(int fd, const void *p, size_t n);

#endif
