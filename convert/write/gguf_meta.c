#include "convert/write/gguf_meta.h"

#include "convert/source/model_card.h"
#include "convert/write/model_id.h"
#include "policy/type_policy.h"

int fy_gguf_meta_model(fy_model_meta *out, const char *dir, const char *id, const char *name,
                       const fy_hf_config *config, const fy_convert_plan *p, fy_err *e)
{
    char label[FY_SIZE_LABEL_BYTES];
    json_t *card;
    if (fy_model_card_read(dir, &card, e))
        return -1;
    if (p != NULL && p->n_expert_params > 0) {
        uint32_t n = config->hp.n_expert;
        fy_size_label_of_experts(n, p->n_params - p->n_expert_params + p->n_expert_params / n,
                                 label);
    } else if (p != NULL) {
        fy_size_label(p->n_params, label);
    }
    fy_model_source s = {
        .card = card,
        .config = config != NULL ? config->root : NULL,
        .id = id,
        .name = name,
        .n_params = p != NULL ? p->n_params : 0,
        .size_label = p != NULL ? label : NULL,
    };
    int rc = fy_model_meta_init(out, &s, e);
    json_decref(card);
    return rc;
}

static int write_general(fy_gguf_writer *w, const fy_gguf_meta *m, fy_err *e)
{
    const char *arch = m->config != NULL ? m->config->family->gguf_arch : "llama";
    return fy_gguf_add_str(w, FY_KEY_ARCHITECTURE, fy_span_of(arch), e) ||
                   fy_gguf_add_str(w, "general.type", FY_SPAN("model"), e) ||
                   fy_model_meta_write(m->model, w, e) ||
                   (m->source_sha256 != NULL &&
                    fy_gguf_add_str(w, "ferry.source_sha256", fy_span_of(m->source_sha256), e))
               ? -1
               : 0;
}

/* The version of the block layouts is written for every type, as the reference writer does: a later
 * quantization then changes values and no key. */
static int write_file_type(fy_gguf_writer *w, const fy_convert_plan *p, fy_err *e)
{
    const int file_type = p->llama_recipe ? fy_llama_ftype(p->type) : fy_type_ftype(p->type);
    if (fy_gguf_add_u32(w, FY_KEY_FILE_TYPE, (uint32_t)file_type, e))
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

int fy_gguf_add_planned(fy_gguf_writer *w, const fy_convert_plan *plan, fy_err *e)
{
    for (size_t i = 0; i < plan->n_tensors; i++) {
        const fy_plan_tensor *t = &plan->tensors[i];
        char name[FY_ROW_NAME_BYTES];
        fy_plan_name(t, name);
        if (fy_gguf_add_tensor(w, name, t->type, t->n_dims, t->ne, e) < 0)
            return -1;
    }
    return 0;
}
