/* The peer's side of instructions.sh: llama.cpp's library computes N_PROMPT tokens and then N_GEN
 * tokens one by one, with one thread, as `ferry run --prompt-ids` does.
 *
 *   count_peer LIBRARIES MODEL N_PROMPT N_GEN
 *
 * Logits are asked for at every position: else the last layer would be computed for the last token
 * only, which is a sixteenth of the work of a real model and two fifths of the small one here.
 * Built against the headers of the release that the libraries in the directory LIBRARIES are of. */
#include <llama.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_TOKEN = 100, N_CTX = 320 };

static void quiet(enum ggml_log_level level, const char *text, void *user)
{
    (void)user;
    if (level == GGML_LOG_LEVEL_ERROR || getenv("COUNT_PEER_LOG") != NULL)
        fputs(text, stderr);
}

static int likeliest(const float *logits, int n)
{
    int best = 0;
    for (int i = 1; i < n; i++) {
        if (logits[i] > logits[best])
            best = i;
    }
    return best;
}

static int fail(const char *what)
{
    fprintf(stderr, "count_peer: %s failed\n", what);
    return 1;
}

static void put(struct llama_batch *batch, llama_token id, int pos, bool wants_logits)
{
    int i = batch->n_tokens++;
    batch->token[i] = id;
    batch->pos[i] = pos;
    batch->n_seq_id[i] = 1;
    batch->seq_id[i][0] = 0;
    batch->logits[i] = wants_logits;
}

static int generate(struct llama_context *ctx, int n_vocab, int n_prompt, int n_gen)
{
    struct llama_batch batch = llama_batch_init(N_CTX, 0, 1);
    for (int i = 0; i < n_prompt; i++)
        put(&batch, FIRST_TOKEN + i, i, i == n_prompt - 1);
    for (int i = 0; i < n_gen; i++) {
        if (llama_decode(ctx, batch) != 0)
            return fail("llama_decode");
        llama_token next = likeliest(llama_get_logits_ith(ctx, -1), n_vocab);
        printf("%d ", next);
        batch.n_tokens = 0;
        put(&batch, next, n_prompt + i, true);
    }
    putchar('\n');
    return 0;
}

int main(int argc, char **argv)
{
    int n_prompt = argc == 5 ? atoi(argv[3]) : 0, n_gen = argc == 5 ? atoi(argv[4]) : 0;
    if (n_prompt < 1 || n_gen < 1 || n_prompt + n_gen > N_CTX) {
        fprintf(stderr, "usage: count_peer LIBRARIES MODEL N_PROMPT N_GEN\n");
        return 2;
    }
    llama_log_set(quiet, NULL);
    ggml_backend_load_all_from_path(argv[1]);
    struct llama_model *model = llama_model_load_from_file(argv[2], llama_model_default_params());
    if (model == NULL)
        return fail("llama_model_load_from_file");
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = N_CTX;
    params.n_threads = params.n_threads_batch = 1;
    struct llama_context *ctx = llama_init_from_model(model, params);
    if (ctx == NULL)
        return fail("llama_init_from_model");
    return generate(ctx, llama_vocab_n_tokens(llama_model_get_vocab(model)), n_prompt, n_gen);
}
