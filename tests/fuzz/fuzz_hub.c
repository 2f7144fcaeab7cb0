/* The hub's reply about a repository: whatever it is, it is refused or gives names that stay below
 * a directory, hashes that are names of files, and a choice among them. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "hub/hub_list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_name(const char *name)
{
    if (name[0] == '\0' || name[0] == '/')
        abort();
    for (const char *p = name; *p != '\0';) {
        size_t n = strcspn(p, "/");
        if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
            abort();
        p += n;
        if (*p == '/' && *++p == '\0')
            abort();
    }
}

static void check_list(fy_hub_list *l)
{
    if (!fy_hub_is_hash(l->commit, strlen(l->commit)))
        abort();
    for (size_t i = 0; i < l->n; i++) {
        const fy_hub_file *f = &l->files[i];
        check_name(f->name);
        if (f->hash[0] != '\0' && !fy_hub_is_hash(f->hash, strlen(f->hash)))
            abort();
        if (i > 0 && strcmp(f->name, f[-1].name) <= 0)
            abort();
    }
}

/* A choice holds something; of a GGUF model all its files and nothing else. */
static void check_choice(fy_hub_list *l, const fy_hub_choice *c)
{
    size_t n = 0;
    fy_err e = {0};
    const int rc = fy_hub_list_choose(l, c, &e);
    if (rc != 0) {
        if (e.code == FY_OK || e.msg[0] == '\0')
            abort();
        return;
    }
    for (size_t i = 0; i < l->n; i++)
        n += l->files[i].wanted;
    if (n == 0 || (l->model.first != NULL && n != l->model.name.count))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fy_hub_list l;
    fy_err e = {0};
    if (fy_hub_list_read(data, size, &l, &e) != 0) {
        if (e.code == FY_OK || e.msg[0] == '\0')
            abort();
        return 0;
    }
    check_list(&l);
    for (int kind = FY_HUB_ANY; kind <= FY_HUB_GGUF; kind++) {
        check_choice(&l, &(fy_hub_choice){.kind = (fy_hub_kind)kind});
        check_choice(&l, &(fy_hub_choice){.kind = (fy_hub_kind)kind, .type = "q8_0"});
    }
    fy_hub_list_release(&l);
    return 0;
}
