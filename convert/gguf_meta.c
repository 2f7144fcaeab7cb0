#include "convert/gguf_meta.h"

#include <math.h>
#include <stdio.h>

/* "7.2B", "494M": three significant digits at most, as gguf-py's
 * model_weight_count_rounded_notation with two. */
static void size_label(uint64_t n_params, char out[24])
{
    static const struct {
        double scale;
        char unit;
    } units[] = {{1e12, 'T'}, {1e9, 'B'}, {1e6, 'M'}, {1e3, 'K'}};
    size_t u = 0;
    while (u < 3 && !((double)n_params > units[u].scale))
        u++;
    double x = (double)n_params / units[u].scale;
    int decimals = nearbyint(x) >= 10 ? 0 : nearbyint(x) >= 1 ? 1 : 2;
    snprintf(out, 24, "%.*f%c", decimals, x, units[u].unit);
}

static int write_general(fy_gguf_writer *w, const fy_gguf_meta *m, fy_err *e)
{
    const char *arch = m->config != NULL ? m->config->family->gguf_arch : "llama";
    if (fy_gguf_add_str(w, FY_KEY_ARCHITECTURE, fy_span_of(arch), e) ||
        fy_gguf_add_str(w, "general.type", FY_SPAN("model"), e) ||
        fy_gguf_add_str(w, FY_KEY_NAME, m->name, e))
        return -1;
    if (m->plan == NULL)
        return 0;
    char label[24];
    size_label(m->plan->n_params, label);
    return fy_gguf_add_str(w, "general.size_label", fy_span_of(label), e);
}

/* The version of the block layouts is written for every type, as the reference writer does: a later
 * quantization then changes values and no key. */
static int write_file_type(fy_gguf_writer *w, const fy_convert_plan *p, fy_err *e)
{
    if (fy_gguf_add_u32(w, FY_KEY_FILE_TYPE, (uint32_t)fy_type_ftype(p->type), e))
        return -1;
    return fy_gguf_add_u32(w, FY_KEY_QUANTIZATION_VERSION, FY_QUANTIZATION_VERSION, e);
}

int fy_gguf_meta_write(fy_gguf_writer *w, const fy_gguf_meta *m, fy_err *e)
{
    uint32_t n_rows = m->plan != NULL ? m->plan->config->hp.n_vocab : 0;
    if (write_general(w, m, e) ||
        (m->tokenizer != NULL && fy_hf_tokenizer_write_sampling(m->tokenizer, w, e)))
        return -1;
    if (m->config != NULL) {
        fy_hparams hp = m->config->hp;
        uint32_t n_tokens = m->tokenizer != NULL ? fy_hf_tokenizer_n_tokens(m->tokenizer) : 0;
        if (m->plan == NULL && n_tokens > hp.n_vocab)
            hp.n_vocab = n_tokens; /* no embedding here that the list must agree with */
        if (fy_hparams_to_gguf(w, m->config->family, &hp, e))
            return -1;
    }
    if (m->plan != NULL && write_file_type(w, m->plan, e))
        return -1;
    return m->tokenizer != NULL ? fy_hf_tokenizer_write(m->tokenizer, n_rows, w, e) : 0;
}
