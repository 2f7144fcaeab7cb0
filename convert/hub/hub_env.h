/* What the environment says about the hub, by the variables of huggingface_hub: HF_ENDPOINT,
 * HF_TOKEN (else HUGGING_FACE_HUB_TOKEN, else the file that 'hf auth login' writes: $HF_TOKEN_PATH,
 * $HF_HOME/token), HF_HUB_OFFLINE, HF_HUB_DOWNLOAD_TIMEOUT. The token is no part of any message. */
#ifndef FY_HUB_HUB_ENV_H
#define FY_HUB_HUB_ENV_H

#include <stdbool.h>

#include "base/err.h"

typedef struct {
    char *endpoint; /* owned; without a slash behind it */
    char *token;    /* owned; NULL: none */
    int silence_s;
} fy_hub_env;

int fy_hub_env_read(fy_hub_env *out, fy_err *e);
void fy_hub_env_release(fy_hub_env *v);
bool fy_hub_is_offline(void);

#endif
