#include "convert/tokenizer/base64.h"

#include <stdint.h>
#include <string.h>

static int digit(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c != '\0' ? strchr(digits, c) : NULL;
    return at != NULL ? (int)(at - digits) : -1;
}

bool fy_base64_decode(fy_span s, fy_str *out)
{
    uint32_t bits = 0;
    unsigned n_bits = 0;
    for (int i = 0; i < 2 && s.len > 0 && s.ptr[s.len - 1] == '='; i++)
        s.len--;
    for (size_t i = 0; i < s.len; i++) {
        int d = digit(s.ptr[i]);
        if (d < 0)
            return false;
        bits = bits << 6 | (uint32_t)d;
        n_bits += 6;
        if (n_bits >= 8) {
            n_bits -= 8;
            fy_str_putc(out, (char)(bits >> n_bits & 0xFF));
        }
    }
    return true;
}
