#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/phone/phone.h"

static void set(phone_control *c, const char *name, const char *value)
{
    const struct {
        const char *name;
        uint64_t *number;
        bool *flag;
    } rows[] = {
        {"drop_after", &c->drop_after, NULL},
        {"full_after", &c->full_after, NULL},
        {"extra", &c->extra, NULL},
        {"rate", &c->rate, NULL},
        {"chunk", &c->chunk, NULL},
        {"unauthorized", NULL, &c->unauthorized},
        {"noexec", NULL, &c->noexec},
        {"exit_lost", NULL, &c->exit_lost},
        {"lets_live", NULL, &c->lets_live},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(name, rows[i].name) != 0)
            continue;
        if (rows[i].number != NULL)
            *rows[i].number = strtoull(value, NULL, 10);
        else
            *rows[i].flag = value[0] == '1';
        return;
    }
    if (strcmp(name, "features") == 0)
        snprintf(c->features, sizeof c->features, "%s", value);
    else if (strcmp(name, "reason") == 0)
        snprintf(c->reason, sizeof c->reason, "%s", value);
    else
        fprintf(stderr, "phone: control: unknown name %s\n", name);
}

int phone_control_read(const char *path, phone_control *c)
{
    static struct stat last;
    struct stat st = {0};
    FILE *f = fopen(path, "r");
    bool gone = f == NULL || fstat(fileno(f), &st) != 0;
    bool same = !gone && last.st_ino == st.st_ino && last.st_size == st.st_size &&
                last.st_mtim.tv_sec == st.st_mtim.tv_sec &&
                last.st_mtim.tv_nsec == st.st_mtim.tv_nsec;
    if (!gone && !same) {
        last = st;
        *c = (phone_control){.features = "shell_v2,cmd,stat_v2,fixed_push_mkdir"};
        char line[512];
        while (fgets(line, sizeof line, f) != NULL) {
            line[strcspn(line, "\n")] = '\0';
            char *eq = strchr(line, '=');
            if (eq == NULL)
                continue;
            *eq = '\0';
            set(c, line, eq + 1);
        }
    }
    if (f != NULL)
        fclose(f);
    return !gone && !same;
}

void phone_note(const phone *p, const char *what, const char *arg)
{
    FILE *f = fopen(p->log, "a");
    if (f == NULL)
        return;
    fprintf(f, "%s%s\n", what, arg);
    fclose(f);
}

bool phone_read(int fd, void *p, size_t n)
{
    for (char *at = p; n > 0;) {
        ssize_t got = read(fd, at, n);
        if (got <= 0)
            return false;
        at += got;
        n -= (size_t)got;
    }
    return true;
}

bool phone_write(int fd, const void *p, size_t n)
{
    for (const char *at = p; n > 0;) {
        ssize_t put = write(fd, at, n);
        if (put <= 0)
            return false;
        at += put;
        n -= (size_t)put;
    }
    return true;
}
