/* What a checkpoint says about itself: the general.* keys of authorship and origin, from the model
 * card, config.json and the directory's name, in that order of trust. Keys, values and guesses are
 * those of gguf-py's Metadata.load, less what makes no sense in a file (empty names, the number of
 * no base models, booleans that were words). */
#ifndef FY_CONVERT_MODEL_META_H
#define FY_CONVERT_MODEL_META_H

#include <stdint.h>

#include <jansson.h>

#include "base/err.h"
#include "base/str.h"
#include "format/gguf_write.h"

/* What the keys are found from. */
typedef struct {
    const json_t *card;     /* fy_model_card_read */
    const json_t *config;   /* config.json; NULL: there is none */
    const char *id;         /* "NAME" of the directory, or "ORG/NAME" of one in the hub's cache */
    const char *name;       /* that the user gives; NULL: none */
    uint64_t n_params;      /* 0: not known */
    const char *size_label; /* for a model that does not say; NULL: none */
} fy_model_source;

/* An object: texts by their key after "general." ("license.link"; always "name"), lists "tags" and
 * "languages" of texts, lists "base_model" and "dataset" of objects. NULL on failure. */
json_t *fy_model_meta_new(const fy_model_source *s, fy_err *e);

/* Adds the keys, general.name first. */
int fy_model_meta_write(const json_t *meta, fy_gguf_writer *w, fy_err *e);

/* The name of a file by the GGUF naming convention, without ".gguf":
 * BaseName-SizeLabel-FineTune-Version-ENCODING-kind. encoding, kind: NULL leaves them out; without
 * an encoding (a vocabulary) there is no size label either. Always a plain file name. */
void fy_model_meta_file_name(const json_t *meta, const char *encoding, const char *kind,
                             fy_str *out);

#endif
