/* Plays a script against a program at a pseudo-terminal.
 *
 *     pty_drive [-o TRANSCRIPT] [-c COLUMNS] SCRIPT PROGRAM [ARGUMENT...]
 *
 * A line of the script is a word and its text; '#' begins a comment. In texts \n \r \t \e \\ \xNN
 * stand for bytes.
 *     wait TEXT      until the program has written TEXT behind what was waited for before
 *     send TEXT      types TEXT
 *     line TEXT      types TEXT and Return
 *     resize R C     gives the terminal R rows and C columns
 *     signal NAME    sends INT, TERM, TSTP or CONT to the program
 *     shell COMMAND  runs it elsewhere; its exit status has to be 0
 *     stopped        until the program is stopped
 *     end STATUS     until the program has ended, with this exit status or "signal N"
 * Exit status 0 when everything came as written; else 1, and stderr says at which line. A step
 * waits for two minutes at most. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 16384 }; /* of the script */

static struct {
    int fd;
    pid_t pid;
    char *seen;        /* all that the program wrote */
    size_t n, cap, at; /* at: after the last match */
    bool ended;
    const char *script;
    int line;
    double begin_s;
} d;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void save(const char *path)
{
    FILE *f = path != NULL ? fopen(path, "we") : NULL;
    if (f == NULL)
        return;
    fwrite(d.seen, 1, d.n, f);
    fclose(f);
}

static const char *transcript;

static void fail(const char *what, const char *text)
{
    fprintf(stderr, "%s:%d: %s %s\nwritten since the last match:\n", d.script, d.line, what, text);
    for (size_t i = d.at; i < d.n; i++) {
        unsigned char c = (unsigned char)d.seen[i];
        if ((c < 0x20 && c != '\n') || c == 0x7F)
            fprintf(stderr, "\\x%02x", c);
        else
            fputc(c, stderr);
    }
    fputc('\n', stderr);
    save(transcript);
    if (!d.ended)
        kill(d.pid, SIGKILL);
    exit(1);
}

/* Reads what is there, waiting for at most 50 ms. */
static void pump(void)
{
    struct pollfd p = {.fd = d.fd, .events = POLLIN};
    if (d.ended || poll(&p, 1, 50) <= 0)
        return;
    if (d.cap - d.n < 4096) {
        d.cap = 2 * d.cap + 8192;
        d.seen = realloc(d.seen, d.cap);
        if (d.seen == NULL)
            abort();
    }
    ssize_t n = read(d.fd, d.seen + d.n, d.cap - d.n);
    if (n > 0)
        d.n += (size_t)n;
    else if (n == 0 || (errno != EINTR && errno != EAGAIN))
        d.ended = true; /* nobody has the other side open any more */
}

static void check_time(const char *what, const char *text)
{
    if (now_s() - d.begin_s > 120)
        fail(what, text);
}

/* The bytes of an escaped text; returns their number. */
static size_t unescape(const char *s, char *out)
{
    static const char letters[] = "nrte\\", bytes[] = "\n\r\t\033\\";
    size_t n = 0;
    while (*s != '\0') {
        const char *at = s[0] == '\\' && s[1] != '\0' ? strchr(letters, s[1]) : NULL;
        if (at != NULL) {
            out[n++] = bytes[at - letters];
            s += 2;
        } else if (s[0] == '\\' && s[1] == 'x') {
            char hex[3] = {s[2], s[2] != '\0' ? s[3] : '\0', '\0'};
            out[n++] = (char)strtol(hex, NULL, 16);
            s += 4;
        } else {
            out[n++] = *s++;
        }
    }
    return n;
}

static void do_wait(const char *text)
{
    char want[LINE_MAX_BYTES];
    size_t n = unescape(text, want);
    for (;;) {
        const char *hit = d.n > d.at ? memmem(d.seen + d.at, d.n - d.at, want, n) : NULL;
        if (hit != NULL) {
            d.at = (size_t)(hit - d.seen) + n;
            return;
        }
        if (d.ended)
            fail("the program ended; waited for", text);
        check_time("waited in vain for", text);
        pump();
    }
}

static void type(const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t w = write(d.fd, bytes, n);
        if (w > 0) {
            bytes += w;
            n -= (size_t)w;
        } else if (w < 0 && errno != EAGAIN && errno != EINTR) {
            fail("cannot type:", strerror(errno));
        } else {
            check_time("the program does not read:", "");
            pump();
        }
    }
}

/* An editor draws its prompt before it takes the terminal over; a Ctrl-D in between would be lost. */
static void wait_for_editor(void)
{
    struct termios t;
    for (int i = 0; i < 50 && tcgetattr(d.fd, &t) == 0 && (t.c_lflag & ICANON) != 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

static void do_send(const char *text)
{
    char bytes[LINE_MAX_BYTES];
    const size_t n = unescape(text, bytes);
    if (n == 1 && bytes[0] == '\x04')
        wait_for_editor();
    type(bytes, n);
}

static void do_line(const char *text)
{
    do_send(text);
    type("\r", 1);
}

static void do_resize(const char *text)
{
    struct winsize size = {0};
    if (sscanf(text, "%hu %hu", &size.ws_row, &size.ws_col) != 2 ||
        ioctl(d.fd, TIOCSWINSZ, &size) != 0)
        fail("cannot resize to", text);
}

static void do_signal(const char *text)
{
    static const struct {
        const char *name;
        int number;
    } known[] = {{"INT", SIGINT}, {"TERM", SIGTERM}, {"TSTP", SIGTSTP}, {"CONT", SIGCONT}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(known[i].name, text) == 0 && kill(d.pid, known[i].number) == 0)
            return;
    }
    fail("cannot send the signal", text);
}

static void do_shell(const char *text)
{
    if (system(text) != 0)
        fail("failed:", text);
}

static void do_stopped(const char *text)
{
    int status;
    while (waitpid(d.pid, &status, WNOHANG | WUNTRACED) != d.pid || !WIFSTOPPED(status)) {
        check_time("the program did not stop", text);
        pump();
    }
}

static void do_end(const char *text)
{
    int status;
    char got[32];
    while (waitpid(d.pid, &status, WNOHANG) != d.pid) {
        check_time("the program did not end; wanted", text);
        pump();
    }
    while (!d.ended)
        pump();
    if (WIFSIGNALED(status))
        snprintf(got, sizeof got, "signal %d", WTERMSIG(status));
    else
        snprintf(got, sizeof got, "%d", WEXITSTATUS(status));
    if (strcmp(got, text) != 0) {
        fprintf(stderr, "the program ended with %s\n", got);
        fail("wanted", text);
    }
}

static void play(char *line)
{
    static const struct {
        const char *word;
        void (*run)(const char *text);
    } steps[] = {{"wait", do_wait},     {"send", do_send},     {"line", do_line},
                 {"resize", do_resize}, {"signal", do_signal}, {"stopped", do_stopped},
                 {"shell", do_shell},   {"end", do_end}};
    line[strcspn(line, "\n")] = '\0';
    if (line[0] == '\0' || line[0] == '#')
        return;
    size_t n = strcspn(line, " ");
    const char *text = line + n + (line[n] == ' ');
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        if (strlen(steps[i].word) == n && memcmp(steps[i].word, line, n) == 0) {
            d.begin_s = now_s();
            steps[i].run(text);
            return;
        }
    }
    fail("no step is called", line);
}

int main(int argc, char **argv)
{
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    while (argc > 2 && (strcmp(argv[1], "-o") == 0 || strcmp(argv[1], "-c") == 0)) {
        if (argv[1][1] == 'o')
            transcript = argv[2];
        else
            size.ws_col = (unsigned short)atoi(argv[2]);
        argc -= 2;
        argv += 2;
    }
    if (argc < 3) {
        fprintf(stderr, "usage: pty_drive [-o TRANSCRIPT] [-c COLUMNS] SCRIPT PROGRAM [ARGUMENT...]\n");
        return 2;
    }
    d.script = argv[1];
    FILE *script = fopen(argv[1], "re");
    if (script == NULL) {
        perror(argv[1]);
        return 2;
    }
    d.pid = forkpty(&d.fd, NULL, NULL, &size);
    if (d.pid == 0) {
        execvp(argv[2], argv + 2);
        perror(argv[2]);
        _exit(127);
    }
    if (d.pid < 0) {
        perror("forkpty");
        return 2;
    }
    fcntl(d.fd, F_SETFL, O_NONBLOCK);
    char line[LINE_MAX_BYTES];
    while (fgets(line, sizeof line, script) != NULL) {
        d.line++;
        play(line);
    }
    fclose(script);
    save(transcript);
    if (!d.ended)
        kill(d.pid, SIGKILL);
    return 0;
}
