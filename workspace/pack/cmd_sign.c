/* The verbs `keygen` and `sign`. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/verb.h"
#include "cli/verb_rows.h"
#include "workspace/pack/sign.h"

typedef struct { /* of both */
    const char *name, *key;
    bool quiet, verbose;
} options;

/* --- keygen ----------------------------------------------------------------------------------- */

static const fy_opt keygen_opts[] = {
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

static int keygen(void *opaque, int n_args, char **args, fy_err *e)
{
    const options *o = opaque;
    (void)n_args;
    (void)args;
    char fingerprint[FY_FINGERPRINT_BYTES];
    if (fy_keygen(o->name, fingerprint, e) != 0)
        return -1;
    fy_log(FY_LOG_INFO, "%s.pem: the private key, for 'ferry sign'; keep it secret", o->name);
    fy_log(FY_LOG_INFO, "%s.pub.pem: the public key, %s", o->name, fingerprint);
    return 0;
}

const fy_verb fy_verb_keygen = {
    .name = "keygen",
    .summary = "make a key pair to sign workspaces with",
    .synopsis = "",
    .opts = keygen_opts,
    .n_opts = sizeof keygen_opts / sizeof keygen_opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "Makes an Ed25519 key pair through OpenSSL and writes it as PEM: the private key, which "
        "only the user may read and which has no passphrase ('openssl pkey -aes256' adds one), and "
        "the public key. The fingerprint is the SHA-256 of the public key; give it to those who "
        "should trust the key. They put NAME.pub.pem into ferry/trusted below $XDG_CONFIG_HOME, or "
        "below ~/.config.",
    .examples = "ferry keygen -o build-server\n",
    .task = FY_TASK_PACKAGE,
    .run = keygen,
};

/* --- sign ------------------------------------------------------------------------------------- */

static const fy_opt sign_opts[] = {
    FY_ANY_STR("Signature", "key", "KEY.pem", key,
               "The private key, as 'ferry keygen' writes it. One with a passphrase asks for it on "
               "the terminal."),
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

/* One line from the terminal, which does not show it. */
static int read_line(int fd, char *out, int size)
{
    int n = 0;
    char c;
    ssize_t got;
    while ((got = read(fd, &c, 1)) == 1 && c != '\n') {
        if (n == size)
            return -1;
        out[n++] = c;
    }
    return got == 1 ? n : -1;
}

static int ask(void *user, const char *path, char *out, int size)
{
    (void)user;
    struct termios shown, hidden;
    int fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return -1;
    if (tcgetattr(fd, &shown) != 0) {
        close(fd);
        return -1;
    }
    hidden = shown;
    hidden.c_lflag &= ~(tcflag_t)ECHO;
    hidden.c_lflag |= ICANON | ECHONL;
    tcsetattr(fd, TCSAFLUSH, &hidden);
    char quoted[160];
    dprintf(fd, "passphrase of %s: ", fy_quote(quoted, sizeof quoted, fy_span_of(path)));
    int n = read_line(fd, out, size);
    tcsetattr(fd, TCSAFLUSH, &shown);
    close(fd);
    return n;
}

static int sign(void *opaque, int n_args, char **args, fy_err *e)
{
    const options *o = opaque;
    (void)n_args;
    char fingerprint[FY_FINGERPRINT_BYTES];
    if (o->key == NULL)
        return fy_fail(e, FY_EARG,
                       "no key given; name one with --key KEY.pem ('ferry keygen' makes one)");
    if (fy_sign(args[0], o->key, ask, NULL, fingerprint, e) != 0)
        return -1;
    fy_log(FY_LOG_INFO, "%s: signed by %s", args[0], fingerprint);
    return 0;
}

const fy_verb fy_verb_sign = {
    .name = "sign",
    .summary = "sign a workspace",
    .synopsis = "DIR",
    .min_args = 1,
    .max_args = 1,
    .opts = sign_opts,
    .n_opts = sizeof sign_opts / sizeof sign_opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "Signs manifest.json, which holds the hash of every other file, with an Ed25519 key: "
        "manifest.sig gets the 64 bytes of the signature, manifest.pub.pem the public key. An "
        "older "
        "signature is replaced. 'openssl pkeyutl -sign -rawin' makes the same signature, and "
        "'openssl pkeyutl -verify -rawin' checks it.\n\n"
        "verify, push and unpack report whose signature a workspace has.",
    .examples = "ferry keygen -o me\n"
                "ferry sign workspace --key me.pem\n"
                "ferry verify workspace --key me.pub.pem\n",
    .task = FY_TASK_PACKAGE,
    .run = sign,
};
