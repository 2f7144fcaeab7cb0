/* A line of the chat on a phone: an event within its ranges, or FY_EDEVICE with a message. */
#include <stdint.h>
#include <stdlib.h>

#include "workspace/phone/phone_chat.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fy_phone_event v;
    fy_err e = {0};
    if (fy_phone_event_parse((fy_span){(const char *)data, size}, &v, &e) != 0) {
        if (e.code != FY_EDEVICE || e.msg[0] == '\0' || v.text != NULL || v.content != NULL)
            abort();
        return 0;
    }
    if (v.text == NULL || v.id < -1 || v.id > INT32_MAX || v.status < 0 || v.status > 255 ||
        v.timing.n_reused > v.timing.n_prompt || v.timing.backend != v.backend)
        abort();
    fy_phone_event_release(&v);
    return 0;
}
