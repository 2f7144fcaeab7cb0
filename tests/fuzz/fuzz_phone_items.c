/* What a phone says it has of ours: whatever the bytes are, an item lies in one of our places, and
 * its name and path are plain. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bundle/manifest_read.h"
#include "workspace/phone/phone_items.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fy_phone_items l;
    fy_err e = {0};
    if (fy_phone_items_parse((fy_span){(const char *)data, size}, &l, &e) != 0)
        abort();
    for (size_t i = 0; i < l.n; i++) {
        const fy_phone_item *item = &l.item[i];
        if (item->path[0] != '.' || !fy_manifest_path_ok(item->path) || item->name[0] == '\0' ||
            strchr(item->name, '/') != NULL || strstr(item->path, item->name) == NULL ||
            item->bytes % 1024 != 0 || item->used_s < 0 ||
            (i > 0 && item[-1].kind > item->kind))
            abort();
    }
    fy_phone_items_release(&l);
    return 0;
}
