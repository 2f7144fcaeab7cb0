/* The habits of other programs' users, as two tables (foreign.h). The sources: ollama's and
 * llama.cpp's --help of 2026, mlc_llm, ExecuTorch's Qualcomm examples, PowerServe's launcher, adb.
 * A text names what to type instead; options that change nothing here are left out. */
#include "cli/foreign.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define LEAVE_OUT "; leave it out"

const fy_foreign fy_foreign_verbs[] = {
    {"show|info|dump|gguf-dump|metadata", NULL,
     "'ferry inspect FILE.gguf' shows what is in a model; of one in the hub's cache 'ferry inspect "
     "ORG/NAME'"},
    {"ls|models|tags", NULL, "'ferry list' shows the models and workspaces on this machine"},
    {"delete|remove|uninstall|prune", NULL, "'ferry rm NAME' removes a model or a workspace"},
    {"ps|status|top", NULL,
     "nothing of ferry stays in memory between calls; 'ferry doctor' looks at a phone"},
    {"stop|kill|unload", NULL,
     "a model is in memory only while its command runs: Ctrl-C ends 'ferry chat' and 'ferry run'"},
    {"cp|copy|mv|move", NULL,
     "a model is an ordinary file, which cp and mv handle; 'ferry create MODEL.gguf -o DIR' makes "
     "a "
     "workspace of it"},
    {"signin|signout|login|logout|auth", NULL,
     "there is no account; for gated repositories 'ferry fetch ORG/NAME' takes the token of "
     "HF_TOKEN "
     "or of Hugging Face's own login"},
    {"get|download|clone|install-model", NULL, "'ferry fetch ORG/NAME' downloads a checkpoint"},
    {"generate|gen|complete|ask|prompt|simple|cli|llama-cli|main|infer|inference", NULL,
     "'ferry run -m MODEL.gguf -p TEXT' continues a text, 'ferry chat -m MODEL.gguf' talks"},
    {"server|llama-server|api|httpd", NULL,
     "'ferry serve -m MODEL.gguf' answers requests of OpenAI's and llama-server's interface"},
    {"perplexity|ppl|llama-perplexity", NULL,
     "'ferry eval -m MODEL.gguf --text FILE' measures perplexity"},
    {"imatrix|llama-imatrix|importance", NULL,
     "'ferry eval -m MODEL.gguf --text FILE --imatrix-out OUT.gguf' makes an importance matrix"},
    {"embedding|embeddings|embed", NULL,
     "embeddings are not written; 'ferry eval -m MODEL.gguf --text FILE' measures a model"},
    {"gguf-split|split|merge|shard", NULL,
     "'ferry quantize IN.gguf OUT.gguf TYPE --split-max-size 2G' splits, and 'ferry run' takes a "
     "split model by its first file"},
    {"llama-quantize|llama-bench|llama-tokenize", NULL,
     "without 'llama-': 'ferry quantize', 'ferry bench', 'ferry tokenize'"},
    {"export-lora|lora", NULL,
     "'ferry convert CHECKPOINT --lora ADAPTER' merges an adapter while it converts"},
    {"convert_weight|convert-weight|convert_hf_to_gguf|gen_config|gen-config|export|ggml", NULL,
     "'ferry convert CHECKPOINT' makes a GGUF file, tokenizer and configuration in it"},
    {"package|bundle|archive", NULL,
     "'ferry create MODEL.gguf -o DIR' makes a workspace, 'ferry pack DIR' an archive of it"},
    {"devices|device|phones", NULL,
     "'adb devices' lists phones, 'ferry doctor' looks at one of them"},
    {"install|deploy|upload|send", NULL,
     "'ferry push DIR' puts a workspace onto the phone, 'ferry up CHECKPOINT' does all before it, "
     "too"},
    {"shell|logcat|forward|root|reboot", NULL,
     "that is adb's: 'adb VERB'; 'ferry run --device' runs a model on the phone"},
    {"update|upgrade", NULL,
     "ferry does not change itself; 'ferry --version' says which one it is"},
    {NULL, NULL, NULL},
};

#define ENGINE "run|chat|eval|bench|serve"
#define GUESS  "run|chat|serve" /* have the options of speculation */
#define TEXT   "run|chat"

const fy_foreign fy_foreign_options[] = {
    /* llama.cpp: where and how it computes */
    {"ngl|gpu-layers|n-gpu-layers|num-gpu|gpu|main-gpu|mg|split-mode|sm|tensor-split|ts|n-cpu-moe|"
     "cpu-moe|cmoe|ncmoe|override-tensor|ot|op-offload|no-op-offload|no-kv-offload|nkvo|dev|"
     "list-devices|fit",
     ENGINE,
     "there is no GPU to choose: the CPU computes, with '--gpu-hot' a GPU beside it, or with "
     "'--backend qnn' a phone's NPU" LEAVE_OUT},
    {"fa|flash-attn|flash-attention", ENGINE, "attention is computed so already" LEAVE_OUT},
    {"tb|threads-batch", ENGINE, "-t counts for prompts, too" LEAVE_OUT},
    {"ub|ubatch-size", ENGINE, "-b is the only batch size" LEAVE_OUT},
    {"numa|prio|poll|cpu-strict|cpu-mask-batch|cpu-range-batch|Cb|Crb", ENGINE,
     "'-C HEX' and '-Cr LO-HI' choose CPUs"},
    {"warmup|no-warmup|perf|no-perf|check-tensors", TEXT, "nothing of the kind is done" LEAVE_OUT},
    {"rope-scaling|rope-scale|rope-freq-base|rope-freq-scale|yarn-orig-ctx|yarn-ext-factor|"
     "yarn-attn-factor|yarn-beta-slow|yarn-beta-fast",
     ENGINE, "RoPE is computed as the model file says" LEAVE_OUT},
    {"override-kv", NULL, "keys are taken from the file; 'ferry convert' writes them"},
    {"lora-scaled|control-vector|control-vector-scaled", ENGINE,
     "'ferry convert CHECKPOINT --lora ADAPTER' merges an adapter beforehand"},
    {"lora", ENGINE, "'ferry convert CHECKPOINT --lora ADAPTER' merges an adapter beforehand"},
    {"mmproj|mm|image|audio|video", NULL, "ferry computes texts only" LEAVE_OUT},
    {"mu|model-url", ENGINE, "'ferry fetch ORG/NAME' downloads a model"},
    {"hf-token|hft", NULL, "the token comes from HF_TOKEN or Hugging Face's own login"},
    /* llama.cpp: prompts and conversations */
    {"i|interactive|interactive-first|if|cnv|conversation|instruct|ins|multiline-input|mli", "run",
     "'ferry chat -m MODEL.gguf' talks"},
    {"i|interactive|interactive-first|if|cnv|conversation|instruct|ins|simple-io", "chat",
     "chat is a conversation already" LEAVE_OUT},
    {"no-cnv|no-conversation|no-display-prompt|display-prompt|simple-io|color|co", "run",
     "run continues the text as it is and prints only what is new" LEAVE_OUT},
    {"color|co|no-display-prompt|display-prompt", "chat",
     "colours come by themselves on a terminal; NO_COLOR=1 keeps them away" LEAVE_OUT},
    {"st|single-turn", "chat", "'-p TEXT' answers once and ends"},
    {"st|single-turn", "run", "'ferry chat -m MODEL.gguf -p TEXT' answers once and ends"},
    {"r|reverse-prompt|antiprompt", TEXT, "'--stop TEXT' ends an answer there"},
    {"jinja|no-jinja", TEXT, "the model's Jinja template is always understood" LEAVE_OUT},
    {"chat-template-file", "chat|template",
     "'--chat-template FILE' takes a file as well as a name"},
    {"chat-template|chat-template-file|chat-template-kwargs", "run",
     "'ferry chat -m MODEL.gguf' uses templates"},
    {"chat-template-kwargs", "chat", "'--template-arg NAME=VALUE' sets a template's variable"},
    {"sys|system-prompt", "chat", "'--system TEXT' is the system message"},
    {"sys|system|system-prompt|system-file", "run",
     "'ferry chat -m MODEL.gguf --system TEXT' takes a system message"},
    {"r|reverse-prompt|stop-string|stop-strings|stop-sequence", TEXT,
     "'--stop TEXT' ends an answer before that text"},
    {"prompt-cache-all|prompt-cache-ro", TEXT,
     "'--prompt-cache FILE' holds prompt and answer, and is written only when something is new"},
    {"context-shift|no-context-shift|keep", "chat",
     "'--on-full drop|summarize|stop' is what happens when the context is full"},
    {"st|single-turn", "chat", "'-p TEXT' answers one message and exits"},
    {"show-timings|no-show-timings", "chat",
     "'--timings' shows tokens per second after each answer"},
    {"sysf", "chat", "'--system-file FILE' holds the system message"},
    {"e|escape|no-escape", TEXT, "the shell writes escapes: -p $'a\\nb'" LEAVE_OUT},
    {"in-prefix|in-suffix|in-prefix-bos", TEXT,
     "the model's template says what goes around a message" LEAVE_OUT},
    {"bf|binary-file", "run", "'-f FILE' takes the bytes of a file"},
    {"verbose-prompt", "chat", "'--show-prompt' shows what the model is given"},
    {"verbose-prompt", "run", "'ferry tokenize -m MODEL.gguf TEXT' shows the tokens of a prompt"},
    {"reasoning-format|reasoning-budget|reasoning|rea|nothink|hidethinking|thinking", "chat",
     "'--think hide' leaves thinking out of the answer; '--template-arg enable_thinking=false' "
     "asks "
     "the model for none"},
    {"mirostat|mirostat-lr|mirostat-ent|dry-multiplier|dry-base|dry-allowed-length|"
     "dry-penalty-last-n|dry-sequence-breaker|xtc-probability|xtc-threshold|top-nsigma|"
     "top-n-sigma|dynatemp-range|dynatemp-exp|adaptive-target",
     TEXT,
     "that sampler is not there: '--temp', '--top-k', '--top-p', '--min-p' and '--typical' are"},
    {"sampling-seq|sampler-seq", TEXT, "'--samplers' takes letters, too: --samplers ekypmt"},
    {"log-disable|no-log", NULL, "'-q' shows only warnings and errors"},
    {"log-verbose|log-verbosity|lv|verbosity", NULL, "'-v' shows more"},
    {"log-file|log-colors|log-prefix|log-timestamps", NULL,
     "messages go to standard error: 2>FILE" LEAVE_OUT},
    {"model-draft", GUESS, "'--draft-model FILE.gguf' (-md) is the draft model"},
    {"draft|draft-n", GUESS "|bench", "'--draft-max N' is the most guesses of a step"},
    {"spec-type|spec-default|speculative", GUESS,
     "'--spec METHOD' computes guesses in the same step"},
    {"draft-min|ctx-size-draft|cd|threads-draft|td|device-draft|devd|gpu-layers-draft|ngld", GUESS,
     "the draft model has the context and the threads of the model" LEAVE_OUT},
    /* llama-quantize, convert_hf_to_gguf.py */
    {"leave-output-tensor", "quantize|convert", "'--output-tensor-type f16' names its type"},
    {"tensor-type-file", "quantize", "'--tensor-type REGEX=TYPE' may be repeated"},
    {"include-weights|exclude-weights", "quantize",
     "'--tensor-type REGEX=TYPE' chooses the type of single matrices"},
    {"keep-split|no-tensor-first-split|split-max-tensors", "quantize|convert",
     "'--split-max-size 2G' splits the output"},
    {"print-supported-models", "convert", "'--list-archs' lists what can be converted"},
    {"remote", "convert", "'--fetch' downloads ORG/NAME first"},
    {"no-lazy|use-temp-file|bigendian|verify-tensors", "convert",
     "the model is streamed, little-endian, whatever its size" LEAVE_OUT},
    {"tensor-type", "convert", "'--keep REGEX=TYPE' chooses the type of single matrices"},
    /* ollama */
    {"keepalive|keep-alive", TEXT, "a model is in memory only while its command runs" LEAVE_OUT},
    {"nowordwrap|wordwrap", "chat",
     "answers are wrapped at words on a terminal only, and code in them is not" LEAVE_OUT},
    {"insecure|experimental", TEXT, "nothing of the kind is done" LEAVE_OUT},
    {"num-ctx|max-seq-len|max-context-len|max-seq-length|context", GUESS "|eval",
     "'-c N' is the size of the context"},
    {"num-predict|num-tokens|max-tokens|max-new-tokens|seq-len", TEXT,
     "'-n N' is the most tokens to generate"},
    {"f|file|modelfile", "create",
     "there is no Modelfile: 'ferry create MODEL.gguf -o DIR' takes a model, and hparams.json in "
     "DIR "
     "its defaults"},
    {"modelfile|parameters|license|template|system", "inspect",
     "'ferry inspect FILE.gguf' shows all of it, with '--json' for programs"},
    /* MLC, ExecuTorch */
    {"quantization|quant", "convert|create|up", "'--outtype TYPE' is the type: q4_0, q8_0, Q4_K_M"},
    {"model-path|decoder-model|checkpoint|model-dir", ENGINE, "'-m FILE.gguf' is the model"},
    {"tokenizer-path|tokenizer|tokenizer-model|tokenizer-bin", ENGINE,
     "the tokenizer is in the GGUF file" LEAVE_OUT},
    {"ptq|kv-bits-io", "compile|chunk",
     "'ferry chunk MODEL.gguf --recipe 16a4w -o DIR' chooses the NPU's types"},
    {"soc-model", "plan|chunk|compile|create|up", "'--soc SM8650' is the chip"},
    {NULL, NULL, NULL},
};

/* Is `word` in "a|b|c"? '_' and '-' are the same in long words. */
static bool is_in(const char *words, const char *word, size_t len)
{
    for (const char *p = words;; p++) {
        const size_t n = strcspn(p, "|");
        size_t i = 0;
        while (i < n && i < len && (p[i] == word[i] || (p[i] == '-' && word[i] == '_')))
            i++;
        if (i == n && i == len)
            return true;
        p += n;
        if (*p == '\0')
            return false;
    }
}

static const char *find(const fy_foreign *rows, const char *verb, const char *word, size_t len)
{
    for (const fy_foreign *r = rows; r->words != NULL; r++) {
        if ((verb == NULL || r->verbs == NULL || is_in(r->verbs, verb, strlen(verb))) &&
            is_in(r->words, word, len))
            return r->text;
    }
    return NULL;
}

const char *fy_foreign_verb(const char *word)
{
    return find(fy_foreign_verbs, NULL, word, strlen(word));
}

const char *fy_foreign_option(const char *verb, const char *word)
{
    const size_t dashes = strspn(word, "-");
    return dashes == 1 || dashes == 2
               ? find(fy_foreign_options, verb, word + dashes, strcspn(word + dashes, "="))
               : NULL;
}
