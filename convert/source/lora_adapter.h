/* One adapter: its configuration, and its tensors put together to deltas and whole tensors. For
 * lora.c. */
#ifndef FY_CONVERT_LORA_ADAPTER_H
#define FY_CONVERT_LORA_ADAPTER_H

#include "convert/source/checkpoint_impl.h"
#include "convert/source/lora_config.h"
#include "convert/source/lora_names.h"

/* What an adapter says about one tensor of the base. */
typedef struct {
    fy_span target; /* name of that tensor, as the adapter has it */
    fy_span module; /* of a delta; ptr NULL: `whole` takes the tensor's place */
    const fy_ckpt_tensor *whole, *a, *b; /* views */
    bool embedding;                      /* a, b are lora_embedding_A, lora_embedding_B */
    bool bias;                           /* b is lora_B.bias, and there is no a */
    bool said;                           /* of the output: the embedding's says the same */
    fy_span first;                       /* name of the tensor of the adapter that said so */
} fy_lora_change;

typedef struct {
    char *dir;        /* owned */
    const char *file; /* view; path of the tensors */
    double scale;     /* the user's */
    fy_lora_config config;
    fy_lora_change *changes; /* owned */
    size_t n, cap;
    fy_names index; /* target -> index in changes */
} fy_lora_adapter;

/* "DIR[:SCALE]" in its parts. *dir is freed by the caller, after a failure, too (NULL then or not);
 * it is a directory. */
int fy_lora_parse(const char *arg, char **dir, double *scale, fy_err *e);

/* Reads "DIR[:SCALE]"; the file of the tensors becomes one of c's. */
int fy_lora_adapter_open(fy_lora_adapter *a, fy_ckpt *c, const char *arg, fy_err *e);
void fy_lora_adapter_release(fy_lora_adapter *a);

#endif
