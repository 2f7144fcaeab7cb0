/* Faults that a test asks for: the lines of the file that FERRY_REF_FAULTS names, read again at
 * every call. Empty lines and those with # are skipped. A line of the first form is about calls:
 *
 *   FUNCTION [N] code C | ssr [fatal|C] | sleep MS | segv | abort     the N-th call; without N each
 *   memory BYTES [sessions N] [map BYTES] [maps BYTES]    4K, 290M, 3G
 *   core A.B.C    build TEXT    blob newer    arch vN    soc N    vtcm MB
 *   skel FILE                       deviceCreate fails unless ADSP_LIBRARY_PATH leads to it
 *   validate OP refuse|accept       finalize OP refuse
 *   hash_collision TENSOR           a static tensor gets the values of an earlier one of its size
 *   output TENSOR bit N             the first element of an output has a bit flipped
 *   weights nibble swap             4 bit values are stored in the wrong order
 *   encoding TENSOR x2              metadata names twice the scale
 *   ignore_alias                    a buffer that is registered twice is not shared
 *   alias refuse                    memRegister refuses a second shape for a buffer
 *   config N refuse                 a custom option of contexts and graphs is not known
 *   reload refuse                   a context with shared weights cannot be loaded, and the
 *                                   provider has another name, as on a PC
 *   supported empty                 no operations are listed
 *   providers 0|2|wrong             none, two, or another backend's
 *   rpcmem null|fd|limit BYTES      in the tests' libcdsprpc.so
 *   layout N                        the system library answers as BinaryInfo N
 *   system absent                   it has no provider */
#include "qnnref/ref_impl.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_WORDS = 8, MAX_TEXT = 8192 };

typedef struct {
    char text[256];
    const char *words[MAX_WORDS];
    int n;
} fault_line;

static void split(fault_line *l)
{
    char *save = NULL;
    l->n = 0;
    for (char *w = strtok_r(l->text, " \t\r", &save); w != NULL && l->n < MAX_WORDS;
         w = strtok_r(NULL, " \t\r", &save))
        l->words[l->n++] = w;
}

/* Calls `each` for the lines until it returns true; what it looked for is in *l then. */
static bool search(fault_line *l, bool (*each)(const fault_line *, const void *), const void *user)
{
    const char *path = getenv("FERRY_REF_FAULTS");
    FILE *f = path != NULL ? fopen(path, "re") : NULL;
    bool found = false;
    while (f != NULL && !found && fgets(l->text, sizeof l->text, f) != NULL) {
        l->text[strcspn(l->text, "\n#")] = '\0';
        split(l);
        found = l->n > 0 && each(l, user);
    }
    if (f != NULL)
        fclose(f);
    return found;
}

static void count_use(const fault_line *l);

typedef struct {
    const char *name;
    unsigned long n;
} wanted_call;

static const char *const effects[] = {"code", "ssr", "sleep", "segv", "abort"};

static int effect_at(const fault_line *l, int i)
{
    for (int k = 0; i < l->n && k < 5; k++) {
        if (strcmp(l->words[i], effects[k]) == 0)
            return k;
    }
    return -1;
}

static bool is_call(const fault_line *l, const void *user)
{
    const wanted_call *w = user;
    if (strcmp(l->words[0], w->name) != 0 || l->n < 2)
        return false;
    if (isdigit((unsigned char)l->words[1][0]))
        return strtoul(l->words[1], NULL, 10) == w->n && effect_at(l, 2) >= 0;
    return effect_at(l, 1) >= 0;
}

static abi_error apply(const fault_line *l)
{
    int i = isdigit((unsigned char)l->words[1][0]) ? 2 : 1;
    const char *arg = i + 1 < l->n ? l->words[i + 1] : "";
    abi_error code = strtoul(arg, NULL, 10);
    struct timespec t = {(time_t)(code / 1000), (long)(code % 1000) * 1000000};
    switch (effect_at(l, i)) {
    case 0:
        return ref_fail(code, "%s: a fault that the test asked for", l->words[0]);
    case 1:
        ref_lose_contexts();
        if (strcmp(arg, "fatal") == 0)
            code = ABI_COMMUNICATION_FATAL;
        else if (code == 0)
            code = ABI_COMMUNICATION;
        return ref_fail(code, "%s: the subsystem restarted (SSR)", l->words[0]);
    case 2:
        while (nanosleep(&t, &t) != 0 && errno == EINTR) /* as deaf as a driver */
            ;
        return 0;
    case 3:
        raise(SIGSEGV);
        return 0;
    default:
        raise(SIGABRT);
        return 0;
    }
}

abi_error ref_fault_call(const char *name, unsigned long n)
{
    fault_line l;
    if (!search(&l, is_call, &(wanted_call){name, n}))
        return 0;
    count_use(&l);
    return apply(&l);
}

static bool is_memory(const fault_line *l, const void *user)
{
    (void)user;
    return strcmp(l->words[0], "memory") == 0 && l->n >= 2;
}

static uint64_t bytes_of(const char *text)
{
    char *end;
    uint64_t v = strtoull(text, &end, 10);
    return *end == 'K' ? v << 10 : *end == 'M' ? v << 20 : *end == 'G' ? v << 30 : v;
}

ref_limits ref_fault_limits(void)
{
    fault_line l;
    ref_limits r = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
    if (!search(&l, is_memory, NULL))
        return r;
    count_use(&l);
    r.session_bytes = bytes_of(l.words[1]);
    for (int i = 2; i + 1 < l.n; i += 2) {
        uint64_t *to = strcmp(l.words[i], "sessions") == 0 ? &r.sessions
                       : strcmp(l.words[i], "map") == 0    ? &r.map_bytes
                       : strcmp(l.words[i], "maps") == 0   ? &r.maps_bytes
                                                           : NULL;
        if (to != NULL)
            *to = bytes_of(l.words[i + 1]);
    }
    return r;
}

typedef struct {
    const char *word, *subject;
} wanted_word;

static bool is_word(const fault_line *l, const void *user)
{
    const wanted_word *w = user;
    if (strcmp(l->words[0], w->word) != 0)
        return false;
    return w->subject == NULL || (l->n >= 2 && strcmp(l->words[1], w->subject) == 0);
}

const char *ref_fault(const char *word, const char *subject)
{
    static __thread fault_line l;
    if (!search(&l, is_word, &(wanted_word){word, subject}))
        return NULL;
    count_use(&l);
    return subject == NULL ? (l.n > 1 ? l.words[1] : "") : l.n > 2 ? l.words[l.n - 1] : "";
}

/* FERRY_REF_COVERAGE collects which lines had an effect, by their first word and effect. */
static void count_use(const fault_line *l)
{
    const char *path = getenv("FERRY_REF_COVERAGE");
    FILE *f = path != NULL ? fopen(path, "ae") : NULL;
    if (f == NULL)
        return;
    int i = l->n > 1 && isdigit((unsigned char)l->words[1][0]) ? 2 : 1;
    int e = effect_at(l, i);
    fprintf(f, "fault 1 %s\n", e >= 0 ? effects[e] : l->words[0]);
    fclose(f);
}
