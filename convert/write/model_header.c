#include "cli/model_header.h"

#include "convert/write/planned_gguf.h"
#include "hub/hub_cache.h"

int fy_checkpoint_header(const char *path, fy_str *out, fy_err *e)
{
    fy_hub_place place;
    if (fy_hub_find(path, &place, e))
        return -1;
    int rc = fy_planned_header(place.dir, place.name, FY_F16, out, e);
    fy_hub_place_release(&place);
    return rc;
}
