#include "convert/source/hf_names.h"

#include <stdio.h>
#include <string.h>

static const char *without_head(const char *name)
{
    static const char *const heads[] = {"model.", "transformer.", "gpt_neox."};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        if (fy_span_begins(fy_span_of(name), heads[i]))
            return name + strlen(heads[i]);
    }
    return name;
}

void fy_name_in_form(fy_name_form form, const char *name, char out[FY_HF_NAME_BYTES])
{
    const char *before = "";
    if (form == FY_FORM_BEFORE)
        before = "language_model.";
    else if (form == FY_FORM_MODEL)
        before = "model.";
    else if (form == FY_FORM_BARE)
        name = without_head(name);
    else if (form == FY_FORM_INSIDE && fy_span_begins(fy_span_of(name), "model.")) {
        before = "model.language_model.";
        name += strlen("model.");
    }
    snprintf(out, FY_HF_NAME_BYTES, "%s%s", before, name);
}

fy_name_form fy_name_form_of(const fy_ckpt *dir, const fy_family *f, size_t *n_found)
{
    fy_name_form best = FY_FORM_PLAIN;
    *n_found = 0;
    for (fy_name_form form = FY_FORM_PLAIN; form < FY_FORM_COUNT; form++) {
        size_t n = 0;
        for (size_t i = 0; i < f->n_rows; i++) {
            char row[FY_ROW_NAME_BYTES], name[FY_HF_NAME_BYTES];
            if (f->rows[i].hf == NULL)
                continue;
            fy_row_name(f->rows[i].hf, 0, row);
            fy_name_in_form(form, row, name);
            n += fy_ckpt_find(dir, fy_span_of(name)) != NULL;
        }
        if (n > *n_found) {
            *n_found = n;
            best = form;
        }
    }
    return best;
}
