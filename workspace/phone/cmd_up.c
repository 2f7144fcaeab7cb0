/* The verb `up`: its options, and where its checkpoint comes from. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cli/verb.h"
#include "cli/verb_rows.h"
#include "hub/hub_fetch.h"
#include "kernels/row.h"
#include "workspace/phone/adb.h"
#include "workspace/phone/up.h"

typedef struct {
    const char *device, *serial, *dir;
    int outtype, to;
    bool dry_run, force, fetch, quiet, verbose;
    fy_opt_list convert, create, push, chat;
} options;

#define OUTTYPES "auto|" FY_ROW_TYPES

static const fy_opt opts[] = {
    {.group = "Phone",
     .name = "device",
     .kind = FY_OPT_STR,
     .arg = "SERIAL",
     .offset = offsetof(options, device),
     .bare = "",
     .line_only = true,
     .help = "The phone; without it ANDROID_SERIAL's, or the only one that is connected."},
    FY_LINE_STR_AS("Phone", "serial", "s", "SERIAL", serial, "The same as --device=SERIAL."),
    {.group = "Model",
     .name = "outtype",
     .kind = FY_OPT_CHOICE,
     .arg = OUTTYPES,
     .offset = offsetof(options, outtype),
     .help = "What a checkpoint is converted to; q4_0 when not given."},
    FY_LINE_STR_AS(
        "Model", "out-path", "o", "DIR", dir,
        "Where the workspace is made; its name is that on the phone. Without it it is made in "
        "the cache, with the checkpoint's name."),
    {.group = "Steps",
     .name = "to",
     .kind = FY_OPT_CHOICE,
     .arg = FY_UP_STEPS,
     .offset = offsetof(options, to),
     .def = "chat",
     .line_only = true,
     .help = "The last step."},
    FY_LINE_FLAG("Steps", "dry-run", dry_run, "Print what each step would do, and do none."),
    FY_LINE_FLAG("Steps", "force", force, "Go on although the doctor finds that it will not work."),
    FY_ROW_FETCH,
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

static const fy_borrow borrowed[] = {
    {"chat", "model|work-folder", offsetof(options, chat)},
    {"convert", "outfile|resume|split-max-size|vocab-only|fetch", offsetof(options, convert)},
    {"create", "main-model|fit", offsetof(options, create)},
    {"push", "to", offsetof(options, push)},
    {NULL, NULL, 0},
};

static const char *outtype_name(int choice, char out[8])
{
    fy_choice_name(OUTTYPES, choice, out, 8);
    return out;
}

static int run(void *opaque, int n_args, char **args, fy_err *e)
{
    const options *o = opaque;
    char outtype[8];
    fy_hub_place place;
    (void)n_args;
    if (fy_hub_checkpoint(args[0], o->fetch && !o->dry_run, &place, e) != 0)
        return -1;
    const char *source = fy_option_source(&o->outtype);
    bool is_dir = fy_file_is_dir(place.dir);
    /* a variable or a line of the configuration file is for checkpoints, whatever is given now */
    bool given = source != NULL && (is_dir || strcmp(source, "command line") == 0);
    fy_up_params p = {.checkpoint = place.dir,
                      .name = place.name,
                      .dir = o->dir,
                      .outtype = given    ? outtype_name(o->outtype, outtype)
                                 : is_dir ? "q4_0"
                                          : NULL,
                      .serial = o->device != NULL && *o->device != '\0' ? o->device : o->serial,
                      .last = (fy_up_step)o->to,
                      .dry_run = o->dry_run,
                      .force = o->force,
                      .quiet = o->quiet,
                      .verbose = o->verbose,
                      .convert = o->convert,
                      .create = o->create,
                      .push = o->push,
                      .chat = o->chat};
    int rc = fy_up(&p, e);
    fy_hub_place_release(&place);
    return rc;
}

const fy_verb fy_verb_up = {
    .name = "up",
    .summary = "from a checkpoint to a chat on the phone, in one go",
    .synopsis = "CHECKPOINT|ORG/NAME|FILE.gguf",
    .min_args = 1,
    .max_args = 1,
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "Converts the checkpoint, creates a workspace, looks at the phone as 'ferry doctor' does, "
        "pushes the workspace and starts a chat there. A step whose result is there already is "
        "skipped with a message: contents decide, not names and times, so the second call only "
        "starts the chat. What it makes is kept in ~/.cache/ferry/up, where anything may be "
        "removed.\n\n"
        "Options that are not its own go to the verb that has them: to chat first (--temp, -c, "
        "--system), then to convert, create and push (--exe-path, --soc, --prune). Standard input "
        "and output are the chat's.\n\n"
        "When the doctor finds a failure nothing is pushed; --force continues. The exit status is "
        "that of the step that failed.",
    .examples = "ferry up checkpoint\n"
                "# another type, a phone by its serial number, and options of chat\n"
                "ferry up checkpoint --outtype q8_0 --device=R5CT60XXXXX --temp 0.7 -c 2048\n"
                "# what would be done\n"
                "ferry up checkpoint --dry-run\n"
                "# only as far as the workspace\n"
                "ferry up checkpoint -o phone2 --to create\n",
    .task = FY_TASK_PHONE,
    .environment = FY_ADB_ENVIRONMENT "XDG_CACHE_HOME Where ferry/up is; ~/.cache when not set.\n"
                                      "QNN_SDK_ROOT The NPU vendor's SDK, for --soc and --htp.\n",
    .borrow = borrowed,
    .run = run,
};
