#include "cli/verb.h"
#include "convert/inspect.h"

typedef struct {
    fy_inspect_how how;
    bool quiet, verbose;
} options;

static const fy_opt opts[] = {
    {.group = "Output",
     .name = "json",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, how.json),
     .help = "Write one JSON object instead of tables."},
    {.group = "Output",
     .name = "hash",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, how.hash),
     .help = "Read the data, too, and show the SHA-256 of each tensor: of its elements in "
             "row-major order, little-endian, without gaps."},
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

static int run(void *o, int n_args, char **args, fy_err *e)
{
    (void)n_args;
    fy_str out = {0};
    int rc = fy_inspect(args[0], &((const options *)o)->how, &out, e);
    if (rc == 0)
        rc = fy_stdout(out.ptr, out.len, e);
    fy_str_release(&out);
    return rc;
}

const fy_verb fy_verb_inspect = {
    .name = "inspect",
    .summary = "show what is in a GGUF, safetensors or PyTorch file",
    .synopsis = "FILE",
    .min_args = 1,
    .max_args = 1,
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "Checks the header of FILE by every rule of its format and prints its keys and its "
        "tensors: name, type, shape, bytes and offset in the data section. Values are shown short "
        "and safe for a terminal. The format is recognised by the first bytes, not by the name.\n\n"
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
                "# the same weights have the same hashes, whatever holds them\n"
                "ferry inspect --hash checkpoint/model.safetensors\n",
    .task = FY_TASK_MAKE,
    .run = run,
};
