/* A chunk of a cut model: whatever a file says of itself, what is accepted lies within the model,
 * can be written again and is then read as the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "arch/graph_io.h"
#include "arch/chunk_info.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_TENSORS = 10000 };

static void require(bool ok)
{
    if (!ok)
        abort();
}

static void check_ranges(const fy_chunk_info *p, const fy_hparams *hp)
{
    require(p->index < p->count);
    if (p->kind == FY_CHUNK_LAYERS)
        require(p->first_layer < p->end_layer && p->end_layer <= hp->n_layer);
    else if (p->kind == FY_CHUNK_HEAD)
        require(p->first_token < p->end_token && p->end_token <= hp->n_vocab);
    else
        require(p->kind == FY_CHUNK_EMBEDDING || p->count == 1);
    require(p->kind == FY_CHUNK_WHOLE || strlen(p->model) == 64);
}

static void write_again(const fy_chunk_info *p, const fy_hparams *hp)
{
    fy_err e = {0};
    fy_str head = {0};
    fy_chunk_info again;
    fy_gguf_writer *w = fy_gguf_writer_new(&e);
    require(w != NULL && fy_chunk_info_to_gguf(w, hp, p, &e) == 0 &&
            fy_gguf_writer_header(w, &head, &e) == 0);
    fy_gguf *g = fy_gguf_parse(head.ptr, head.len, "again", true, &e);
    require(g != NULL && fy_chunk_info_from_gguf(g, hp, &again, &e) == 0);
    require(again.kind == p->kind && again.index == p->index && again.count == p->count &&
            again.first_layer == p->first_layer && again.end_layer == p->end_layer &&
            again.first_token == p->first_token && again.end_token == p->end_token &&
            again.tied == p->tied && strcmp(again.model, p->model) == 0);
    fy_gguf_close(g);
    fy_gguf_writer_free(w);
    fy_str_release(&head);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fy_err e = {0};
    fy_hparams hp;
    fy_chunk_info p;
    char text[FY_CHUNK_TEXT_BYTES];
    fy_gguf *g = fy_gguf_parse(data, size, "chunk", true, &e);
    const fy_family *f = g != NULL ? fy_family_of_file(g) : NULL;
    if (f != NULL && fy_hparams_from_gguf(g, f, &hp, &e) == 0) {
        const int rc = fy_chunk_info_from_gguf(g, &hp, &p, &e);
        require((rc == 0) == (e.code == FY_OK));
        if (rc == 0) {
            check_ranges(&p, &hp);
            require(strlen(fy_chunk_text(&p, &hp, text)) < sizeof text);
            if (p.kind != FY_CHUNK_WHOLE && (uint64_t)hp.n_layer * hp.n_head_kv < MOST_TENSORS)
                write_again(&p, &hp);
        }
    }
    fy_gguf_close(g);
    return 0;
}
