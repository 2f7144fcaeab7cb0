/* The model card: whatever the text is, it is refused with a message, or what is kept of it is
 * bounded and becomes keys, and the name of a file that is a plain one. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "convert/source/model_card.h"
#include "convert/write/model_meta.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const json_t *card, const char *id)
{
    fy_err e = {0};
    fy_str name = {0};
    fy_model_source s = {.card = card, .id = id, .n_params = 7000000000, .size_label = "7.0B"};
    fy_gguf_writer *w = fy_gguf_writer_new(&e);
    json_t *m = fy_model_meta_new(&s, &e);
    if (w == NULL || m == NULL || fy_model_meta_write(m, w, &e) != 0)
        abort();
    fy_model_meta_file_name(m, "q8_0", NULL, &name);
    if (!fy_path_is_plain((fy_span){name.ptr, name.len}) || name.len > 240)
        abort();
    fy_str_release(&name);
    fy_gguf_writer_free(w);
    json_decref(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fy_err e = {0};
    json_t *card;
    if (fy_model_card_parse(data, size, &card, &e) != 0) {
        if (e.code != FY_EFORMAT || e.msg[0] == '\0')
            abort();
        return 0;
    }
    char id[64];
    size_t n = size < sizeof id - 1 ? size : sizeof id - 1;
    memcpy(id, data, n);
    id[n] = '\0';
    use(card, id);
    json_decref(card);
    return 0;
}
