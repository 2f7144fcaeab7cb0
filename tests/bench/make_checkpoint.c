/* Writes a Llama-shaped Hugging Face checkpoint with random bf16 weights, for measurements: any
 * size, or sparse (all zeros, no disk taken) to show that memory does not grow with the model.
 *
 *   make_checkpoint DIR [layers=16] [dim=2048] [ffn=8192] [heads=32] [kv=8] [head_dim=64]
 * [vocab=128256] [shards=2] [sparse=0] [tokenizer=1] [tied=1] [experts=0]
 *
 * The defaults are the shape of Llama-3.2-1B. With experts it is a Qwen3 MoE, ffn being the width of
 * an expert. With tokenizer=0 no tokenizer.json is written: put
 * one there. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LAYERS, DIM, FFN, HEADS, KV, HEAD_DIM, VOCAB, SHARDS, SPARSE, TOKENIZER, TIED, EXPERTS, N_PARAMS };

static struct {
    const char *name;
    long value;
} params[N_PARAMS] = {{"layers", 16}, {"dim", 2048},    {"ffn", 8192},     {"heads", 32},
                      {"kv", 8},      {"head_dim", 64}, {"vocab", 128256}, {"shards", 2},
                      {"sparse", 0},  {"tokenizer", 1}, {"tied", 1},       {"experts", 0}};

typedef struct {
    char name[96];
    long rows, cols; /* cols 0: one dimension */
} tensor;

static void die(const char *what)
{
    fprintf(stderr, "make_checkpoint: %s: %s\n", what, strerror(errno));
    exit(1);
}

static FILE *create(const char *dir, const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    if (f == NULL)
        die(path);
    return f;
}

static long elems(const tensor *t)
{
    return t->cols ? t->rows * t->cols : t->rows;
}

static long add(tensor *t, long n, const char *name, long rows, long cols)
{
    snprintf(t[n].name, sizeof t[n].name, "%s", name);
    t[n].rows = rows;
    t[n].cols = cols;
    return n + 1;
}

static long add_layer(tensor *t, long n, long layer)
{
    long d = params[DIM].value, ff = params[FFN].value, hd = params[HEAD_DIM].value;
    long q = params[HEADS].value * hd, kv = params[KV].value * hd, e = params[EXPERTS].value;
    const struct {
        const char *name;
        long rows, cols;
    } rows[] = {{"input_layernorm", d, 0},
                {"post_attention_layernorm", d, 0},
                {"self_attn.k_proj", kv, d},
                {"self_attn.o_proj", d, q},
                {"self_attn.q_proj", q, d},
                {"self_attn.v_proj", kv, d},
                {"mlp.gate", e, d},
                {"self_attn.q_norm", hd, 0},
                {"self_attn.k_norm", hd, 0}};
    static const char *const mlp[] = {"down_proj", "gate_proj", "up_proj"};
    char name[96];
    for (size_t i = 0; i < (e > 0 ? 9 : 6); i++) {
        snprintf(name, sizeof name, "model.layers.%ld.%s.weight", layer, rows[i].name);
        n = add(t, n, name, rows[i].rows, rows[i].cols);
    }
    for (long x = 0; x < (e > 0 ? e : 1); x++) {
        for (int i = 0; i < 3; i++) {
            if (e > 0)
                snprintf(name, sizeof name, "model.layers.%ld.mlp.experts.%ld.%s.weight", layer, x,
                         mlp[i]);
            else
                snprintf(name, sizeof name, "model.layers.%ld.mlp.%s.weight", layer, mlp[i]);
            n = add(t, n, name, i == 0 ? d : ff, i == 0 ? ff : d);
        }
    }
    return n;
}

static long list_tensors(tensor *t)
{
    long d = params[DIM].value, n = 0;
    n = add(t, n, "model.embed_tokens.weight", params[VOCAB].value, d);
    for (long l = 0; l < params[LAYERS].value; l++)
        n = add_layer(t, n, l);
    n = add(t, n, "model.norm.weight", d, 0);
    if (!params[TIED].value)
        n = add(t, n, "lm_head.weight", params[VOCAB].value, d);
    return n;
}

static uint64_t rng_state = 88172645463325252u;
static uint64_t rng(void)
{
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    rng_state ^= rng_state << 17;
    return rng_state;
}

/* About normal with sigma 0.02: a sum of uniform values. Norm weights are 1. */
static void write_values(FILE *f, const tensor *t)
{
    enum { POOL = 1 << 20 };
    static uint16_t pool[POOL];
    if (pool[0] == 0) {
        for (long i = 0; i < POOL; i++) {
            uint64_t r = rng();
            float sum = (float)((r & 0xffff) + (r >> 16 & 0xffff) + (r >> 32 & 0xffff) + (r >> 48));
            float v = (sum / 65536.0f - 2.0f) * 0.0346f;
            uint32_t bits;
            memcpy(&bits, &v, sizeof bits);
            pool[i] = (uint16_t)(bits >> 16);
        }
    }
    for (long left = elems(t); left > 0;) {
        long at = t->cols ? (long)(rng() % (POOL / 2)) : 0, n = left < POOL / 2 ? left : POOL / 2;
        if (t->cols) {
            fwrite(pool + at, 2, (size_t)n, f);
        } else {
            const uint16_t one = 0x3f80;
            for (long i = 0; i < n; i++)
                fwrite(&one, 2, 1, f);
        }
        left -= n;
    }
}

static void write_shard(const char *dir, const char *file, const tensor *t, long n)
{
    char *header = malloc((size_t)n * 256 + 64), *p = header;
    if (header == NULL)
        die("malloc");
    long off = 0;
    p += sprintf(p, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (long i = 0; i < n; i++) {
        long bytes = 2 * elems(&t[i]);
        p += t[i].cols
                 ? sprintf(p, ",\"%s\":{\"dtype\":\"BF16\",\"shape\":[%ld,%ld]", t[i].name,
                           t[i].rows, t[i].cols)
                 : sprintf(p, ",\"%s\":{\"dtype\":\"BF16\",\"shape\":[%ld]", t[i].name, t[i].rows);
        p += sprintf(p, ",\"data_offsets\":[%ld,%ld]}", off, off + bytes);
        off += bytes;
    }
    *p++ = '}';
    while ((p - header) % 8)
        *p++ = ' ';
    uint64_t len = (uint64_t)(p - header);
    FILE *f = create(dir, file);
    fwrite(&len, 8, 1, f);
    fwrite(header, 1, len, f);
    free(header);
    if (params[SPARSE].value) {
        fflush(f);
        if (ftruncate(fileno(f), (off_t)(8 + len) + off) != 0)
            die(file);
    } else {
        for (long i = 0; i < n; i++)
            write_values(f, &t[i]);
    }
    if (fclose(f) != 0)
        die(file);
}

static void write_weights(const char *dir, const tensor *t, long n)
{
    long shards = params[SHARDS].value, total = 0, done = 0, begin = 0;
    for (long i = 0; i < n; i++)
        total += elems(&t[i]);
    FILE *index = shards > 1 ? create(dir, "model.safetensors.index.json") : NULL;
    if (index != NULL)
        fprintf(index, "{\"metadata\":{\"total_size\":%ld},\"weight_map\":{", 2 * total);
    for (long s = 0; s < shards; s++) {
        char file[64] = "model.safetensors";
        if (shards > 1)
            snprintf(file, sizeof file, "model-%05ld-of-%05ld.safetensors", s + 1, shards);
        long end = begin;
        while (end < n && (s == shards - 1 || done < total / shards * (s + 1)))
            done += elems(&t[end++]);
        for (long i = begin; index != NULL && i < end; i++)
            fprintf(index, "%s\"%s\":\"%s\"", i ? "," : "", t[i].name, file);
        write_shard(dir, file, t + begin, end - begin);
        begin = end;
    }
    if (index != NULL) {
        fprintf(index, "}}");
        fclose(index);
    }
}

static void write_config(const char *dir)
{
    FILE *f = create(dir, "config.json");
    long e = params[EXPERTS].value;
    fprintf(f,
            "{\"num_hidden_layers\":%ld,\"hidden_size\":%ld,\"intermediate_size\":%ld,"
            "\"num_attention_heads\":%ld,\"num_key_value_heads\":%ld,\"head_dim\":%ld,"
            "\"vocab_size\":%ld,\"tie_word_embeddings\":%s,",
            params[LAYERS].value, params[DIM].value, params[FFN].value, params[HEADS].value,
            params[KV].value, params[HEAD_DIM].value, params[VOCAB].value,
            params[TIED].value ? "true" : "false");
    fprintf(f, "\"hidden_act\":\"silu\",\"rms_norm_eps\":1e-5,\"rope_theta\":500000.0,"
               "\"max_position_embeddings\":131072,\"torch_dtype\":\"bfloat16\","
               "\"bos_token_id\":1,\"eos_token_id\":2,");
    if (e > 0)
        fprintf(f,
                "\"architectures\":[\"Qwen3MoeForCausalLM\"],\"model_type\":\"qwen3_moe\","
                "\"num_experts\":%ld,\"num_experts_per_tok\":8,\"moe_intermediate_size\":%ld,"
                "\"norm_topk_prob\":true,\"decoder_sparse_step\":1,\"mlp_only_layers\":[]}\n",
                e, params[FFN].value);
    else
        fprintf(f, "\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\","
                   "\"rope_scaling\":{\"factor\":32.0,\"high_freq_factor\":4.0,"
                   "\"low_freq_factor\":1.0,\"original_max_position_embeddings\":8192,"
                   "\"rope_type\":\"llama3\"}}\n");
    fclose(f);
}

/* Bytes, then filler words without merges. */
static void write_tokenizer(const char *dir)
{
    FILE *f = create(dir, "tokenizer.json");
    fprintf(f, "{\"version\":\"1.0\",\"added_tokens\":[");
    const char *const special[] = {"<unk>", "<s>", "</s>"};
    for (int i = 0; i < 3; i++)
        fprintf(f,
                "%s{\"id\":%d,\"content\":\"%s\",\"single_word\":false,\"lstrip\":false,\"rstrip\":"
                "false,"
                "\"normalized\":false,\"special\":true}",
                i ? "," : "", i, special[i]);
    fprintf(
        f, "],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{"
           "\"type\":\"Split\","
           "\"pattern\":{\"Regex\":\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?"
           "\\\\p{L}+|\\\\p{N}{1,3}|"
           " ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"},"
           "\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\",\"add_prefix_"
           "space\":false,"
           "\"trim_offsets\":true,\"use_regex\":false}]},\"post_processor\":null,\"decoder\":{"
           "\"type\":\"ByteLevel\","
           "\"add_prefix_space\":true,\"trim_offsets\":true,\"use_regex\":true},\"model\":{"
           "\"type\":\"BPE\","
           "\"dropout\":null,\"unk_token\":null,\"fuse_unk\":false,\"byte_fallback\":false,"
           "\"ignore_merges\":true,"
           "\"vocab\":{\"<unk>\":0,\"<s>\":1,\"</s>\":2");
    long id = 3, shifted = 0;
    for (int b = 0; b < 256; b++) {
        int keep = (b >= 33 && b < 127) || (b >= 161 && b < 173) || b >= 174;
        fprintf(f, ",\"\\u%04lx\":%ld", keep ? b : 256 + shifted++, id++);
    }
    for (; id < params[VOCAB].value; id++)
        fprintf(f, ",\"w%ld\":%ld", id, id);
    fprintf(f, "},\"merges\":[]}}\n");
    fclose(f);
    f = create(dir, "tokenizer_config.json");
    fprintf(f, "{\"tokenizer_class\":\"PreTrainedTokenizerFast\",\"bos_token\":\"<s>\",\"eos_"
               "token\":\"</s>\","
               "\"add_bos_token\":true}\n");
    fclose(f);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: make_checkpoint DIR [name=value]...\n");
        return 2;
    }
    for (int i = 2; i < argc; i++) {
        size_t n = strcspn(argv[i], "=");
        int p = 0;
        while (p < N_PARAMS &&
               (strlen(params[p].name) != n || strncmp(params[p].name, argv[i], n) != 0))
            p++;
        if (p == N_PARAMS || argv[i][n] != '=') {
            fprintf(stderr, "make_checkpoint: unknown parameter '%s'\n", argv[i]);
            return 2;
        }
        params[p].value = atol(argv[i] + n + 1);
    }
    if (mkdir(argv[1], 0777) != 0 && errno != EEXIST)
        die(argv[1]);
    tensor *t =
        calloc((size_t)((12 + 3 * params[EXPERTS].value) * params[LAYERS].value + 3), sizeof *t);
    if (t == NULL)
        die("calloc");
    write_weights(argv[1], t, list_tensors(t));
    free(t);
    write_config(argv[1]);
    if (params[TOKENIZER].value)
        write_tokenizer(argv[1]);
    return 0;
}
