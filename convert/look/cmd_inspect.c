#include "cli/terminal.h"
#include "cli/verb.h"
#include "cli/verb_rows.h"
#include "convert/look/inspect.h"

typedef struct {
    bool json, hash, quiet, verbose;
    const char *tensor, *at;
    int64_t n_values;
} options;

static const fy_opt opts[] = {
    {.group = "Output",
     .name = "json",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, json),
     .help = "Write one JSON object instead of tables."},
    {.group = "Output",
     .name = "hash",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, hash),
     .help = "Read the data, too, and show the SHA-256 of each tensor: of its elements in "
             "row-major order, little-endian, without gaps."},
    {.group = "One tensor",
     .name = "tensor",
     .kind = FY_OPT_STR,
     .arg = "NAME",
     .offset = offsetof(options, tensor),
     .line_only = true,
     .help = "Instead of all that: read the tensor of this name, and show its smallest and largest "
             "value, mean and standard deviation, how many values are zero, NaN or infinite, and "
             "the first of them."},
    {.group = "One tensor",
     .name = "values",
     .kind = FY_OPT_INT,
     .arg = "N",
     .offset = offsetof(options, n_values),
     .def = "8",
     .min = 0,
     .max = 1 << 20,
     .line_only = true,
     .help = "Show so many values."},
    {.group = "One tensor",
     .name = "at",
     .kind = FY_OPT_STR,
     .arg = "I,J",
     .offset = offsetof(options, at),
     .line_only = true,
     .help = "Show those from this element on, row first, as 'ferry compare' prints it."},
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

static int run(void *opaque, int n_args, char **args, fy_err *e)
{
    const options *o = opaque;
    const fy_inspect_how how = {.json = o->json,
                                .hash = o->hash,
                                .tensor = o->tensor,
                                .n_values = (uint64_t)o->n_values,
                                .at = o->at};
    (void)n_args;
    if (o->at != NULL && o->tensor == NULL)
        return fy_fail(e, FY_EARG, "--at goes with --tensor");
    if (o->hash && o->tensor != NULL)
        return fy_fail(e, FY_EARG, "--hash and --tensor are two things to show: give one of them");
    fy_str out = {0};
    int rc = fy_inspect(args[0], &how, &out, e);
    if (rc == 0)
        rc = fy_stdout(out.ptr, out.len, e);
    fy_str_release(&out);
    return rc;
}

const fy_verb fy_verb_inspect = {
    .name = "inspect",
    .summary = "show what is in a model file, a checkpoint or a workspace",
    .synopsis = "PATH",
    .min_args = 1,
    .max_args = 1,
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "Checks the header of a file by every rule of its format and prints what the model does, "
        "its tokenizer and chat templates, what its types take, its keys, and its tensors: name, "
        "type, shape, bytes and offset in the data section. Values are shown short and safe for a "
        "terminal. The format is recognised by the first bytes, not by the name.\n\n"
        "PATH may be a GGUF, safetensors or PyTorch file; the directory of a checkpoint, whose "
        "keys and tokenizer are shown as a conversion would write them; a workspace, whose main "
        "model is shown; or a model's directory with ggml/weights.gguf, such as 'ferry chunk' "
        "makes. "
        "Of a model in pieces the chain is drawn: which file computes what, and what goes from one "
        "to the next.\n\n"
        "A file that breaks a rule is refused with the rule in words; a Git LFS pointer, an HTML "
        "page and other things found in place of weights are named. The tensor data itself is not "
        "read without --hash.\n\n"
        "PyTorch files (.bin, .pt, .pth) are zip archives or, before version 1.6, streams of "
        "pickles. The pickle is read as data and never run: of a nested checkpoint the keys are "
        "joined with dots, numbers and texts are shown as values, and an object of any class but "
        "PyTorch's tensors is only named. offset is that in the file.",
    .examples = "ferry inspect model.gguf\n"
                "# the type of every tensor, for a script\n"
                "ferry inspect --json model.gguf | jq -r '.tensors[] | .name + \" \" + .type'\n"
                "# what a conversion of this directory would be\n"
                "ferry inspect checkpoint\n"
                "# ten values of a tensor, from row 3, element 9 on\n"
                "ferry inspect model.gguf --tensor token_embd.weight --at 3,9 --values 10\n"
                "# what was cut for an NPU\n"
                "ferry inspect cut\n"
                "# the same weights have the same hashes, whatever holds them\n"
                "ferry inspect --hash checkpoint/model.safetensors\n",
    .task = FY_TASK_MAKE,
    .run = run,
};
