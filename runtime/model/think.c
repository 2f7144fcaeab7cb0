/* The thinking of an answer and the answer itself, told apart while the text comes. */
#include "model/think.h"

#include <string.h>

/* The markers of the models seen so far. */
static const fy_think_marks known[] = {
    {"<think>", "</think>"},
    {"<thinking>", "</thinking>"},
    {"<thought>", "</thought>"},
    {"[THINK]", "[/THINK]"},
    {"<seed:think>", "</seed:think>"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
    /* gpt-oss: channels of messages, each marked by several tokens */
    {"<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"},
    {"<|channel|>final<|message|>", ""},
};
static const char *const channel_marks[] = {"<|start|>", "<|channel|>", "<|message|>", "<|end|>"};
enum { N_KNOWN = sizeof known / sizeof known[0] };

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool starts_with(fy_span s, const char *word)
{
    size_t n = strlen(word);
    return s.len >= n && memcmp(s.ptr, word, n) == 0;
}

fy_span fy_think_opened_by(fy_span prompt, const fy_think_marks **marks)
{
    size_t end = prompt.len;
    while (end > 0 && is_space(prompt.ptr[end - 1]))
        end--;
    for (size_t i = 0; i < N_KNOWN; i++) {
        size_t n = strlen(known[i].begin);
        if (*known[i].end == '\0' || end < n ||
            memcmp(prompt.ptr + end - n, known[i].begin, n) != 0)
            continue;
        if (marks != NULL)
            *marks = &known[i];
        return (fy_span){prompt.ptr + end - n, prompt.len - (end - n)};
    }
    return (fy_span){"", 0};
}

bool fy_think_is_marker(fy_span text)
{
    for (size_t i = 0; i < N_KNOWN; i++) {
        if (fy_span_is(text, known[i].begin) || fy_span_is(text, known[i].end))
            return true;
    }
    for (size_t i = 0; i < sizeof channel_marks / sizeof *channel_marks; i++) {
        if (fy_span_is(text, channel_marks[i]))
            return true;
    }
    return false;
}

void fy_think_begin(fy_think *t, fy_span prompt)
{
    fy_str_clear(&t->held);
    t->marks = NULL;
    t->state = fy_think_opened_by(prompt, &t->marks).len > 0 ? FY_THINK_INSIDE : FY_THINK_START;
}

/* Moves the first n held bytes to *out; drops them when it is NULL. */
static void take(fy_think *t, size_t n, fy_str *out)
{
    if (n == 0)
        return;
    if (out != NULL)
        fy_str_add(out, t->held.ptr, n);
    memmove(t->held.ptr, t->held.ptr + n, t->held.len - n + 1); /* with the NUL after it */
    t->held.len -= n;
}

/* At the start: true once it is known how the answer begins. */
static bool see_start(fy_think *t)
{
    size_t n_space = 0;
    while (n_space < t->held.len && is_space(t->held.ptr[n_space]))
        n_space++;
    fy_span text = {fy_str_z(&t->held) + n_space, t->held.len - n_space};
    bool open = text.len == 0;
    for (size_t i = 0; i < N_KNOWN; i++) {
        const char *begin = known[i].begin;
        if (starts_with(text, begin)) {
            t->marks = &known[i];
            t->state = *known[i].end != '\0' ? FY_THINK_INSIDE : FY_THINK_ANSWER;
            take(t, n_space + strlen(begin), NULL);
            return true;
        }
        open |= text.len < strlen(begin) && memcmp(text.ptr, begin, text.len) == 0;
    }
    if (!open)
        t->state = FY_THINK_ANSWER;
    return !open;
}

/* Inside: passes on what cannot belong to the end marker. */
static void see_end(fy_think *t, fy_str *thinking)
{
    const char *end = t->marks->end;
    size_t n = strlen(end), at = 0;
    while (at < t->held.len) {
        size_t left = t->held.len - at;
        if (memcmp(t->held.ptr + at, end, left < n ? left : n) == 0)
            break;
        at++;
    }
    bool found = t->held.len - at >= n;
    take(t, at, thinking);
    if (found) {
        take(t, n, NULL);
        t->state = FY_THINK_ANSWER;
    }
}

int fy_think_add(fy_think *t, fy_span text, fy_str *thinking, fy_str *answer, fy_err *e)
{
    fy_str_add(&t->held, text.ptr, text.len);
    if (t->held.oom)
        return fy_nomem(e);
    if (t->state == FY_THINK_START && !see_start(t))
        return 0;
    if (t->state == FY_THINK_INSIDE)
        see_end(t, thinking);
    if (t->state == FY_THINK_ANSWER)
        take(t, t->held.len, answer);
    return thinking->oom || answer->oom ? fy_nomem(e) : 0;
}

int fy_think_end(fy_think *t, fy_str *thinking, fy_str *answer, fy_err *e)
{
    take(t, t->held.len, t->state == FY_THINK_INSIDE ? thinking : answer);
    return thinking->oom || answer->oom ? fy_nomem(e) : 0;
}

void fy_think_release(fy_think *t)
{
    fy_str_release(&t->held);
    *t = (fy_think){0};
}
