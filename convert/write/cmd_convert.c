/* ferry convert: its options, and what to do with them. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/path.h"
#include "base/process.h"
#include "base/thread.h"
#include "cli/call.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "cli/verb_rows.h"
#include "convert/source/family_match.h"
#include "convert/source/model_card.h"
#include "convert/write/convert_job.h"
#include "convert/write/gguf_meta.h"
#include "hub/hub_fetch.h"
#include "hub/hub_model.h"
#include "kernels/row.h"
#include "policy/type_policy.h"

#define SYNOPSIS "DIR|ORG/NAME | --list-archs"

typedef fy_convert_options options;

#define FIELD(name) offsetof(options, name)
static const fy_opt opts[] = {
    {.group = "Output",
     .name = "outfile",
     .alias = "o",
     .kind = FY_OPT_STR,
     .arg = "FILE|DIR",
     .offset = FIELD(outfile),
     .line_only = true,
     .help =
         "Write to this file, or into this directory under the standard name "
         "(NAME-SIZE-FINETUNE-VERSION-TYPE.gguf, as far as they are known); without it, into "
         "the current directory. A file that has the standard name already is replaced only by a "
         "repetition of the conversion that made it. "
         "{ftype} in the name of the file becomes the type, {FTYPE} in capitals."},
    {.group = "Output",
     .name = "outtype",
     .kind = FY_OPT_CHOICE,
     .arg = FY_CONVERT_OUTTYPES,
     .offset = FIELD(outtype),
     .def = "auto",
     .refuse = fy_file_type_refusal,
     .help = "Type of the matrices; q4_K_M to q5_K_S and q6_K are llama-quantize's mixtures. auto "
             "keeps the type they have, f32 becoming f16. Norms and biases are always f32. A "
             "matrix whose rows do not divide into blocks of 256 becomes q5_0 instead of q4_K, "
             "q5_1 instead of q5_K, q8_0 instead of q6_K; one whose rows do not divide into blocks "
             "of 32 f16."},
    {.group = "Output",
     .name = "recipe",
     .kind = FY_OPT_CHOICE,
     .arg = FY_RECIPES,
     .offset = FIELD(recipe),
     .help = "pure: every matrix takes the type; so it is without the option, unless the type is a "
             "mixture. llama: llama-quantize's choice, which keeps some matrices in better types "
             "(docs/convert.md)."},
    {.group = "Output",
     .name = "fit",
     .kind = FY_OPT_FLAG,
     .offset = FIELD(fit),
     .help = "Search the scale of every block of 32 elements for the least squared error, instead "
             "of what llama-quantize takes. The files are as usual; q4_0 loses about 6 % less "
             "(docs/quantization.md). It takes longer. Types with blocks of 256 search anyway."},
    {.group = "Output",
     .name = "keep",
     .kind = FY_OPT_STR,
     .arg = "REGEX=TYPE",
     .offset = FIELD(keep),
     .many = true,
     .help = "Another type (as --outtype has them) for matrices in whose GGUF name the "
             "extended regular expression is found. May be repeated; the first that matches "
             "counts."},
    FY_LINE_CHOICE("Output", "output-tensor-type", FY_ROW_TYPES, output_type,
                   "Type of output.weight, before --keep and the recipe."),
    FY_LINE_CHOICE("Output", "token-embedding-type", FY_ROW_TYPES, embedding_type,
                   "Type of token_embd.weight, before --keep and the recipe."),
    FY_LINE_FLAG(
        "Output", "transpose-down", transpose_down,
        "Store the down matrices of feed-forward networks transposed (ffn_down_t), a row for "
        "each neuron, so that decoding does not read those of neurons that are 0. Of models "
        "with a ReLU activation (docs/sparse.md)."),
    FY_LINE_STR(
        "Output", "predictors", "DIR", predictors,
        "Also write the predictors in DIR, model_0.pt to one for the last layer, which tell "
        "which neurons of a layer are not 0 (run --sparse predict), or, if DIR is the model's "
        "own, those among its weights (TurboSparse-Mistral). With --transpose-down; the file is "
        "one of PowerInfer's, which computes with f16 and q4_0."),
    FY_LINE_STR("Output", "model-name", "NAME", model_name,
                "The name inside the file (general.name) instead of the one that the model card, "
                "config.json or the directory's name gives."),
    FY_LINE_STR(
        "Output", "split-max-size", "N(M|G)", split_max_size,
        "Split the model over files NAME-00001-of-0000N.gguf, each with at most so many bytes "
        "of tensors (M: million, G: a thousand million; a larger tensor has a file alone). "
        "Readers are given the first one."),
    FY_LINE_LIST(
        "Work", "lora", "DIR[:SCALE]", lora,
        "Merge a LoRA adapter that PEFT saved into the weights, SCALE times (1 if not given). "
        "May be repeated: adapters add up."),
    {.group = "Work",
     .name = "resume",
     .kind = FY_OPT_FLAG,
     .offset = FIELD(resume),
     .def = "yes",
     .line_only = true,
     .help = "Resume what an interrupted conversion has left, if the checkpoint, the options "
             "and the program are the same; =no starts over, and leaves nothing when it is "
             "interrupted."},
    FY_ROW_FETCH,
    FY_ROWS_PARTS,
    FY_LINE_FLAG(
        "Work", "vocab-only", vocab_only,
        "Write keys and tokenizer, no tensors. Needs the tokenizer's files only; DIR may be "
        "one of them: tokenizer.json, a SentencePiece model, ranks of tiktoken, or the "
        "vocabulary of RWKV World."),
    FY_LINE_FLAG(
        "Work", "embedding-only", embedding_only,
        "Write keys, tokenizer and the token embedding, no other tensor: what a phone needs "
        "whose NPU has the rest. auto is f32 then."),
    FY_LINE_FLAG(
        "Work", "dry-run", dry_run,
        "Print the plan, tensor by tensor, with free space and an estimate of the time, and "
        "write nothing. Exit status 6: there is too little space."),
    FY_LINE_FLAG(
        "Work", "list-archs", list_archs,
        "List the classes of models that can be converted, the architecture that each has in "
        "a GGUF file, and its family."),
    FY_LINE_FLAG(
        "Work", "json", json,
        "Print the plan (and, after a conversion, time and memory), or that list, as JSON."),
    {.group = "Work",
     .name = "pre",
     .kind = FY_OPT_STR,
     .arg = "NAME",
     .offset = FIELD(pre),
     .help = "The pre-tokenizer (tokenizer.ggml.pre) for a tokenizer.json whose structure is not "
             "recognised; the message that asks for it names the nearest one."},
    FY_LINE_STR("Work", "chat-template", "none|NAME|FILE.jinja", chat_template,
                "Leave the checkpoint's chat templates out, or put a built-in one ('ferry template "
                "--list') or a Jinja file in their place."),
    FY_LINE_FLAG(
        "Work", "allow-unmapped", allow_unmapped,
        "Leave out tensors that are not of the family, and list them, instead of stopping."),
    FY_LINE_FLAG(
        "Work", "allow-nonfinite", allow_nonfinite,
        "Write NaN and infinity as they are into f32, f16 and bf16, and what is too large as "
        "infinity, instead of stopping. The types in blocks cannot hold them."),
    FY_ROW_THREADS,
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

/* The workspace is named as the file, without its extension. */
static void say_next(const fy_convert_job *j)
{
    const uint32_t n = fy_gguf_writer_n_files(j->writer);
    const char *out = fy_str_z(&j->out_path);
    char *first = n > 1 ? fy_gguf_split_name(out, 0, n) : NULL;
    fy_str command = {0}, name = {0};
    const fy_span base = fy_path_base(out);
    fy_str_add(&name, base.ptr, base.len - (fy_span_ends(base, ".gguf") ? 5 : 0));
    fy_str_puts(&command, "ferry chat -m ");
    fy_str_put_word(&command, first != NULL ? first : out);
    if (n == 1) {
        fy_str_puts(&command, ", or for a phone: ferry create ");
        fy_str_put_word(&command, out);
        fy_str_puts(&command, " -o ");
        fy_str_put_word(&command, fy_str_z(&name));
    }
    command.oom |= name.oom;
    fy_str_release(&name);
    free(first);
    fy_say_next(&command);
}

/* llama-quantize's file of this name may be another one. */
static void note_type(const fy_convert_job *j, const options *o)
{
    const char *llama =
        j->plan != NULL && o->recipe < 0 ? fy_file_type_of_llama(&j->plan->file) : "";
    if (*llama != '\0' && fy_terminal(STDERR_FILENO))
        fy_log(FY_LOG_INFO, "every matrix in %s; what llama-quantize calls so is %s",
               fy_type_name(j->plan->file.type), llama);
}

static int convert(fy_convert_job *j, const char *path, const options *o, fy_err *e)
{
    double begin = fy_now_s();
    if (fy_convert_job_plan(j, path, o, e))
        return -1;
    if (j->plan != NULL && o->predictors == NULL) /* others do not open PowerInfer's files */
        fy_warn_other_readers(&j->config);
    if (o->dry_run)
        return o->json ? fy_convert_print_json(j, -1, e) : fy_convert_print_plan(j, e);
    fy_convert_say_plan(j);
    note_type(j, o);
    if (fy_convert_job_write(j, e))
        return -1;
    double seconds = fy_now_s() - begin;
    if (j->parts.part.n > 0)
        return fy_part_say_done(&j->parts, fy_str_z(&j->out_path), seconds);
    fy_convert_say_end(j, seconds);
    if (j->plan != NULL && !o->embedding_only)
        say_next(j);
    return o->json ? fy_convert_print_json(j, seconds, e) : 0;
}

static int list_archs(bool json, fy_err *e)
{
    fy_str s = {0};
    fy_family_list(json, &s);
    return fy_stdout_text(&s, e);
}

/* What cannot go together. */
static int check_options(const options *o, fy_err *e)
{
    if (o->vocab_only && o->embedding_only)
        return fy_fail(e, FY_EARG, "--vocab-only has no tensor, --embedding-only has one");
    if (o->vocab_only && (o->keep.n > 0 || o->output_type >= 0 || o->embedding_type >= 0))
        return fy_fail(e, FY_EARG,
                       "--keep, --output-tensor-type and --token-embedding-type are about tensors, "
                       "--vocab-only has none");
    const bool parts = o->part != NULL || o->finish > 0;
    if (parts && (o->vocab_only || o->json))
        return fy_fail(e, FY_EARG, "--part and --finish have no --vocab-only and no --json");
    if ((o->transpose_down || o->predictors != NULL) && (o->vocab_only || o->embedding_only))
        return fy_fail(
            e, FY_EARG,
            "--%s is about the layers, which --vocab-only and --embedding-only leave out",
            o->transpose_down ? "transpose-down" : "predictors");
    if (o->vocab_only && o->fit)
        return fy_fail(e, FY_EARG, "--fit is about tensors, --vocab-only has none");
    if (o->vocab_only && o->lora.n > 0)
        return fy_fail(e, FY_EARG, "--lora changes tensors, and --vocab-only writes none");
    if (o->embedding_only && o->recipe == FY_RECIPE_LLAMA)
        return fy_fail(e, FY_EARG, "--recipe llama is for a whole model, not for --embedding-only");
    return 0;
}

static int run(void *opt, int n_args, char **args, fy_err *e)
{
    const options *o = opt;
    if (o->list_archs && n_args > 0)
        return fy_fail(e, FY_EARG, "--list-archs takes no directory");
    if (o->list_archs)
        return list_archs(o->json, e);
    if (n_args == 0)
        return fy_fail(e, FY_EARG, "too few arguments; usage: ferry convert [options] %s",
                       SYNOPSIS);
    if (check_options(o, e))
        return -1;
    fy_hub_place place;
    if (fy_hub_get(args[0], FY_HUB_CHECKPOINT, o->fetch, &place, e) != 0)
        return -1;
    fy_convert_job j;
    int rc = convert(&j, place.path, o, e);
    fy_convert_job_release(&j);
    fy_hub_place_release(&place);
    return rc;
}

static int write_header(const fy_convert_job *j, int fd, fy_err *e)
{
    fy_str s = {0};
    int rc = fy_gguf_writer_header(j->writer, &s, e);
    while (s.len % FY_GGUF_ALIGNMENT != 0 && !s.oom)
        fy_str_putc(&s, '\0');
    if (rc == 0)
        rc = s.oom ? fy_nomem(e) : fy_write_all(fd, s.ptr, s.len, "the vocabulary", e);
    fy_str_release(&s);
    return rc;
}

/* What --vocab-only writes, in a file without a name: a process that is killed leaves nothing. */
static fy_gguf *open_vocabulary(const char *checkpoint, fy_err *e)
{
    fy_hub_place place;
    fy_convert_job j;
    fy_gguf *g = NULL;
    char path[32];
    if (fy_hub_find(checkpoint, FY_HUB_CHECKPOINT, &place, e) != 0)
        return NULL;
    const options o = {.vocab_only = true, .n_threads = 1};
    int fd = memfd_create("vocabulary", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fd < 0)
        fy_fail_errno(e, "no memory for the vocabulary of %s", checkpoint);
    else {
        if (fy_convert_job_plan(&j, place.path, &o, e) == 0) {
            fy_convert_say_plan(&j);
            g = write_header(&j, fd, e) == 0 ? fy_gguf_open(path, e) : NULL;
        }
        fy_convert_job_release(&j);
        close(fd);
    }
    fy_hub_place_release(&place);
    return g;
}

const fy_verb fy_verb_convert = {
    .name = "convert",
    .summary = "turn a checkpoint into a GGUF file",
    .synopsis = SYNOPSIS,
    .min_args = 0,
    .max_args = 1,
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "Converts a Hugging Face checkpoint directory (config.json, model.safetensors or shards "
        "with their index, "
        "tokenizer files) into one GGUF file, quantizing on the way if asked. Memory use does not "
        "grow with the "
        "model. Of a multi-modal checkpoint, the text model is converted.\n\n"
        "Every tensor of the checkpoint is accounted for before the first byte is written: one "
        "that is missing, "
        "misshapen or unknown is an error that names it. The file has its final name only when it "
        "is whole. The "
        "same checkpoint and options give the same bytes, whatever the number of threads, "
        "interrupted on the way or not.\n\n"
        "A checkpoint in the cache of Hugging Face's tools may be given by its directory there or "
        "as ORG/NAME (ferry fetch).\n\n"
        "The types in blocks are pure: every matrix takes the type, the embedding and the output "
        "included. --recipe and --keep change that.\n\n"
        "Name, licence, base model, tags and languages come from the model card (README.md), from "
        "config.json and from the directory's name.",
    .examples = "# keep the checkpoint's type\n"
                "ferry convert checkpoint\n"
                "# quantize to 4 bits on the way\n"
                "ferry convert checkpoint --outtype q4_0 -o model.gguf\n"
                "# the same, with the scales that lose least\n"
                "ferry convert checkpoint --outtype q4_0 --fit -o model.gguf\n"
                "# what would be written\n"
                "ferry convert checkpoint --outtype q8_0 --dry-run\n"
                "# 4 bits, the embedding in 8\n"
                "ferry convert checkpoint --outtype q4_0 --keep 'token_embd=q8_0'\n"
                "# in files of at most 2 GB\n"
                "ferry convert checkpoint --split-max-size 2G\n"
                "# what can be converted\n"
                "ferry convert --list-archs\n",
    .task = FY_TASK_MAKE,
    .libraries = fy_model_card_libraries,
    .vocabulary = open_vocabulary,
    .run = run,
};
