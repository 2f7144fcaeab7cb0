/* What a phone says of the server that runs there: numbers within their ranges, words that end. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "workspace/phone/phone_serve.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const fy_span text = {(const char *)data, size};
    fy_phone_serving s;
    fy_phone_serving_parse(text, &s);
    if (memchr(s.start, '\0', sizeof s.start) == NULL ||
        memchr(s.digest, '\0', sizeof s.digest) == NULL || s.pid < 0 || s.ended < -1 ||
        s.ended > 255 || (s.alive && !s.known) || (s.known && s.pid < 2))
        abort();
    fy_phone_serve_port(text);
    return 0;
}
