/* Buffers between inaccessible pages, and checks that survive touching one. */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/kcheck/kcheck.h"

enum { CANARY_BYTES = 256, CANARY = 0xc5 };

typedef struct {
    uint8_t *memory; /* FY_KC_SLOT_BYTES accessible bytes */
    uint8_t *canary; /* inside; NULL before the first placement */
} slot_state;

static slot_state slots[FY_KC_N_SLOTS];
static kc_side current_side;
static bool intact;

void kc_slots_open(void)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < FY_KC_N_SLOTS; i++) {
        uint8_t *p =
            mmap(NULL, FY_KC_SLOT_BYTES + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED || mprotect(p + page, FY_KC_SLOT_BYTES, PROT_READ | PROT_WRITE) != 0) {
            perror("kcheck: mmap");
            exit(2);
        }
        slots[i].memory = p + page;
    }
}

static void look_at_canary(const slot_state *s)
{
    for (int i = 0; s->canary != NULL && i < CANARY_BYTES; i++)
        intact = intact && s->canary[i] == CANARY;
}

void kc_slots_side(kc_side side)
{
    current_side = side;
    intact = true;
    for (int i = 0; i < FY_KC_N_SLOTS; i++)
        slots[i].canary = NULL;
}

void *kc_place_guarded(fy_kc_slot slot, size_t n_bytes, void *user)
{
    (void)user;
    slot_state *s = &slots[slot];
    look_at_canary(s);
    if (n_bytes > FY_KC_SLOT_BYTES - CANARY_BYTES) {
        fprintf(stderr, "kcheck: slot %d is too small for %zu bytes\n", (int)slot, n_bytes);
        exit(2);
    }
    const bool at_end = current_side == KC_AT_END;
    uint8_t *p = at_end ? s->memory + FY_KC_SLOT_BYTES - n_bytes : s->memory;
    s->canary = at_end ? p - CANARY_BYTES : p + n_bytes;
    memset(s->canary, CANARY, CANARY_BYTES);
    return p;
}

bool kc_slots_intact(void)
{
    for (int i = 0; i < FY_KC_N_SLOTS; i++)
        look_at_canary(&slots[i]);
    return intact;
}

static sigjmp_buf escape;

static void on_fault(int signal_number)
{
    (void)signal_number;
    siglongjmp(escape, 1);
}

bool kc_run_guarded(fy_kc_check *check, fy_kc_case *t)
{
    struct sigaction act = {.sa_handler = on_fault}, before[2];
    sigemptyset(&act.sa_mask);
    sigaction(SIGSEGV, &act, &before[0]);
    sigaction(SIGBUS, &act, &before[1]);
    volatile bool ok = false;
    if (sigsetjmp(escape, 1) == 0)
        ok = check(t);
    else
        fy_kc_fail(t, "touches memory outside its buffers");
    sigaction(SIGSEGV, &before[0], NULL);
    sigaction(SIGBUS, &before[1], NULL);
    if (ok && !kc_slots_intact())
        ok = fy_kc_fail(t, "writes outside its buffers");
    return ok;
}
