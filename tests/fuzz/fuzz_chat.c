/* A conversation as JSON, and the same bytes as an answer with thinking in it: cut into pieces
 * anywhere they give what the whole gives. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cli/chat/chat.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is read is written as the list that is read again. */
static void messages(fy_span text)
{
    fy_chat_messages m = {0}, again = {0};
    fy_err e = {0};
    fy_str json = {0}, second = {0};
    if (fy_chat_messages_read(&m, text, NULL, &e) == 0) {
        fy_chat_messages_json(&m, &json);
        int rc = fy_chat_messages_read(&again, (fy_span){json.ptr, json.len}, NULL, &e);
        assert(rc == 0 && again.n == m.n);
        fy_chat_messages_json(&again, &second);
        assert(second.len == json.len && memcmp(second.ptr, json.ptr, json.len) == 0);
    }
    fy_chat_messages_release(&m);
    fy_chat_messages_release(&again);
    fy_str_release(&json);
    fy_str_release(&second);
}

static void think(fy_span text, size_t piece, fy_str *thinking, fy_str *answer)
{
    fy_think t = {0};
    fy_think_begin(&t, (fy_span){text.ptr, text.len / 3});
    for (size_t i = 0; i < text.len; i += piece) {
        size_t n = text.len - i < piece ? text.len - i : piece;
        fy_think_add(&t, (fy_span){text.ptr + i, n}, thinking, answer, NULL);
    }
    fy_think_end(&t, thinking, answer, NULL);
    fy_think_release(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > 1 << 14)
        return 0;
    fy_span text = {(const char *)data + 1, size - 1};
    fy_str a = {0}, b = {0}, c = {0}, d = {0};
    messages(text);
    think(text, size, &a, &b);
    think(text, 1 + data[0] % 16, &c, &d);
    assert(a.len == c.len && b.len == d.len);
    assert(memcmp(fy_str_z(&a), fy_str_z(&c), a.len) == 0);
    assert(memcmp(fy_str_z(&b), fy_str_z(&d), b.len) == 0);
    fy_str_release(&a);
    fy_str_release(&b);
    fy_str_release(&c);
    fy_str_release(&d);
    return 0;
}
