/* LoRA adapters, as PEFT saves them, merged into a checkpoint while it is read: afterwards
 * fy_ckpt_read gives W + scale * B A for every matrix that an adapter changes. Nothing is copied;
 * the factors stay in the map of the adapter's file.
 *
 * Several adapters add up in the order given. What an adapter stores whole (modules_to_save,
 * biases, base_layer) takes the place of the base's tensor, whatever the scale.
 *
 * Where the output matrix is tied to the embedding and an adapter changes one of the two, the model
 * that was trained has two matrices: the output becomes a tensor of its own and config->tied false.
 * (PEFT's merge_and_unload adds to the one matrix that both share, which is another model.) With
 * ensure_weight_tying they stay one.
 *
 * Source: peft 0.21, tuners/lora/layer.py and model.py, utils/save_and_load.py. */
#ifndef FY_CONVERT_LORA_H
#define FY_CONVERT_LORA_H

#include "convert/source/checkpoint.h"
#include "convert/source/hf_config.h"

/* args[n]: "DIR" or "DIR:SCALE". `path` is that of the checkpoint. Once for a checkpoint, before
 * anything keeps a pointer to one of its tensors. -1 leaves a checkpoint fit to be closed only. */
int fy_ckpt_merge_loras(fy_ckpt *c, fy_hf_config *config, const char *path, const char *const *args,
                        size_t n, fy_err *e);

#endif
