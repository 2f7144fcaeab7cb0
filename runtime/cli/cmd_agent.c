/* ferry agent: the phone's end of `ferry push`. Options and help only; bundle/agent_job.h does the
 * work. */
#include <limits.h>
#include <unistd.h>

#include "base/process.h"
#include "bundle/agent_job.h"
#include "cli/verb.h"
#include "cli/verb_rows.h"

typedef struct {
    bool quiet, verbose;
} options;

static const fy_opt opts[] = {
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

static int run(void *opaque, int n_args, char **args, fy_err *e)
{
    (void)opaque;
    (void)n_args;
    (void)args;
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    fy_agent_params p = {.in_fd = STDIN_FILENO,
                         .out_fd = STDOUT_FILENO,
                         .version = FERRY_VERSION,
                         .self = n > 0 ? self : NULL};
    return fy_agent_serve(&p, e);
}

const fy_verb fy_verb_agent = {
    .name = "agent",
    .summary = "take a workspace from 'ferry push' (it starts this on the phone)",
    .synopsis = "",
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "The phone's end of 'ferry push', which starts it there: it speaks frames on standard "
        "input and output, checks what the phone has already, asks for the rest, compares every "
        "byte with its hash and switches to the new version when all of it is there. It is not for "
        "a terminal: without a host it ends at once.",
    .examples = "ferry agent < /dev/null\n",
    .task = FY_TASK_INSIDE,
    .run = run,
};
