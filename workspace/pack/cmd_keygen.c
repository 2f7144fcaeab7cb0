#include "base/log.h"
#include "cli/verb.h"
#include "workspace/pack/sign.h"

typedef struct {
    const char *name;
    bool quiet, verbose;
} options;

static const fy_opt opts[] = {
    {.group = "Output",
     .name = "output",
     .alias = "o",
     .kind = FY_OPT_STR,
     .arg = "NAME",
     .offset = offsetof(options, name),
     .def = "ferry",
     .line_only = true,
     .help = "Write NAME.pem and NAME.pub.pem; neither may exist."},
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

static int run(void *opaque, int n_args, char **args, fy_err *e)
{
    const options *o = opaque;
    (void)n_args;
    (void)args;
    char fingerprint[FY_FINGERPRINT_BYTES];
    if (fy_keygen(o->name, fingerprint, e) != 0)
        return -1;
    fy_log(FY_LOG_INFO, "%s.pem: the private key, for 'ferry sign'; keep it to yourself", o->name);
    fy_log(FY_LOG_INFO, "%s.pub.pem: the public key, %s", o->name, fingerprint);
    return 0;
}

const fy_verb fy_verb_keygen = {
    .name = "keygen",
    .summary = "make a key pair to sign workspaces with",
    .synopsis = "",
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "Makes an Ed25519 key pair through OpenSSL and writes it as PEM: the private key, which "
        "only the user may read and which has no passphrase ('openssl pkey -aes256' adds one), and "
        "the public key. The fingerprint is the SHA-256 of the public key; tell it to those who "
        "are to trust the key. They put NAME.pub.pem into ferry/trusted below $XDG_CONFIG_HOME, or "
        "below ~/.config.",
    .examples = "ferry keygen -o build-server\n",
    .task = FY_TASK_PACKAGE,
    .run = run,
};
