/* What the adb server itself knows: phones, their states and features, forwarded ports. */
#include "workspace/phone/adb_link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/log.h"
#include "base/process.h"
#include "base/str.h"
#include "workspace/phone/explain.h"

/* --- states ------------------------------------------------------------------------------------
 */

int fy_adb_bad_state(const char *said, fy_err *e)
{
    char shown[2 * FY_ADB_REASON_MAX];
    const fy_explain_row *r = fy_explain_text(FY_EXPLAIN_ADB, said);
    if (r != NULL)
        return fy_fail(e, FY_EDEVICE, "%s; %s", r->meaning, r->remedy);
    return fy_fail(e, FY_EDEVICE, "adb says '%s', expected 'device'; 'adb devices' shows its state",
                   fy_quote(shown, sizeof shown, fy_span_of(said)));
}

/* --- questions to the server -------------------------------------------------------------------
 */

/* Connected to the server, started when nothing listens. *started may be NULL. */
static int reach(fy_adb_link *l, const fy_adb_address *at, bool *started, fy_err *e)
{
    *l = (fy_adb_link){.fd = -1};
    int rc = fy_adb_dial(l, at, e);
    if (rc <= 0)
        return rc;
    if (!at->local)
        return fy_fail(
            e, FY_EDEVICE,
            "nothing listens on %s:%s; start an adb server there ('adb -a start-server')", at->host,
            at->port);
    if (fy_adb_start_server(at, e) != 0)
        return -1;
    if (started != NULL)
        *started = true;
    rc = fy_adb_dial(l, at, e);
    if (rc > 0)
        return fy_fail(e, FY_EDEVICE, "'adb start-server' ended well, but nothing listens on %s:%s",
                       at->host, at->port);
    return rc;
}

/* Asks for a text of the server. */
static int question(const fy_adb_address *at, const char *request, bool of_phone, fy_str *out,
                    bool *started, fy_err *e)
{
    fy_adb_link l;
    int rc = reach(&l, at, started, e);
    if (rc == 0)
        rc = fy_adb_ask(&l, request, of_phone, e);
    if (rc == 0)
        rc = fy_adb_read_text(&l.source, out, e);
    fy_adb_hang_up(&l);
    return rc;
}

static int list_devices(const fy_adb_address *at, fy_adb_device **out, size_t *n, bool *started,
                        fy_err *e)
{
    fy_str text = {0};
    int rc = question(at, "host:devices-l", false, &text, started, e);
    if (rc != 0)
        fy_ctx(e, "adb server at %s:%s", at->host, at->port);
    else
        rc = fy_adb_parse_devices((fy_span){fy_str_z(&text), text.len}, out, n, e);
    fy_str_release(&text);
    return rc;
}

int fy_adb_devices(fy_adb_device **out, size_t *n, fy_err *e)
{
    fy_adb_address at;
    return fy_adb_address_get(&at, e) == 0 ? list_devices(&at, out, n, NULL, e) : -1;
}

/* --- choosing a phone --------------------------------------------------------------------------
 */

static const char no_phone[] =
    "no phone is connected: switch on USB debugging (Settings, Developer options), plug it in and "
    "accept its question; one in the network: 'adb connect HOST:PORT'";

/* "A (Pixel_8), B (unauthorized)" */
static void describe(const fy_adb_device *d, size_t n, fy_str *out)
{
    enum { ROOM = 200 };
    for (size_t i = 0; i < n; i++) {
        if (out->len > ROOM) {
            fy_str_printf(out, ", and %zu more", n - i);
            return;
        }
        bool usable = strcmp(d[i].state, "device") == 0;
        fy_str_puts(out, i > 0 ? ", " : "");
        fy_str_put_quoted(out, fy_span_of(d[i].serial), FY_QUOTE_BYTES);
        const char *word = usable ? d[i].model : d[i].state;
        if (*word == '\0')
            continue;
        fy_str_puts(out, " (");
        fy_str_put_quoted(out, fy_span_of(word), usable ? FY_QUOTE_BYTES : 16);
        fy_str_puts(out, ")");
    }
}

/* The device with the serial, or the only one; NULL with *e. */
static const fy_adb_device *choose(const fy_adb_device *d, size_t n, const char *serial, fy_err *e)
{
    if (n == 0) {
        fy_fail(e, FY_EDEVICE, "%s", no_phone);
        return NULL;
    }
    if (serial == NULL && n == 1)
        return d;
    for (size_t i = 0; serial != NULL && i < n; i++) {
        if (strcmp(d[i].serial, serial) == 0)
            return &d[i];
    }
    fy_str list = {0};
    char shown[FY_QUOTE_BYTES];
    describe(d, n, &list);
    if (serial != NULL)
        fy_fail(e, FY_EDEVICE, "no phone has the serial %s; connected: %s",
                fy_quote(shown, sizeof shown, fy_span_of(serial)), fy_str_z(&list));
    else
        fy_fail(e, FY_EDEVICE,
                "%zu phones are connected: %s; choose one with -s SERIAL or ANDROID_SERIAL", n,
                fy_str_z(&list));
    fy_str_release(&list);
    return NULL;
}

/* Is it worth a moment's waiting? */
static bool is_passing(const fy_adb_device *d)
{
    return strcmp(d->state, "connecting") == 0 || strcmp(d->state, "authorizing") == 0;
}

/* The serial (caller frees) of a phone that is there and usable. */
static char *find_phone(const fy_adb_address *at, const char *serial, fy_err *e)
{
    enum { WAIT_S = 3 }; /* for the phones that a server finds after its start */
    const struct timespec nap = {.tv_nsec = 100000000};
    bool started = false;
    double until = fy_now_s() + WAIT_S;
    for (;;) {
        fy_adb_device *d = NULL;
        size_t n = 0;
        char *found = NULL;
        if (list_devices(at, &d, &n, &started, e) != 0)
            return NULL;
        fy_err why = {0};
        const fy_adb_device *one = choose(d, n, serial, &why);
        bool again = one != NULL ? is_passing(one) : started && (n == 0 || serial != NULL);
        if (one != NULL && strcmp(one->state, "device") != 0) {
            fy_adb_bad_state(one->state, &why);
            fy_adb_ctx(one->serial, NULL, &why);
        } else if (one != NULL && (found = strdup(one->serial)) == NULL) {
            fy_nomem(&why);
        }
        fy_adb_devices_free(d, n);
        if (found != NULL)
            return found;
        if (!again || fy_now_s() > until || fy_check_interrupt(e) != 0) {
            fy_fail(e, why.code, "%s", why.msg);
            return NULL;
        }
        nanosleep(&nap, NULL);
    }
}

static char *ask_text(const fy_adb_address *at, const char *request, bool of_phone, fy_err *e)
{
    fy_str text = {0};
    char *out = NULL;
    if (question(at, request, of_phone, &text, NULL, e) == 0) {
        out = strdup(fy_str_z(&text)); /* ends at a NUL that should not be there */
        if (out == NULL)
            fy_nomem(e);
    }
    fy_str_release(&text);
    return out;
}

fy_adb *fy_adb_open(const char *serial, fy_err *e)
{
    const char *variable = getenv("ANDROID_SERIAL");
    bool given = serial != NULL && *serial != '\0';
    bool from_variable = !given && variable != NULL && *variable != '\0';
    fy_str request = {0};
    fy_adb *a = calloc(1, sizeof *a);
    if (a == NULL) {
        fy_nomem(e);
        return NULL;
    }
    if (fy_adb_address_get(&a->at, e) != 0)
        goto fail;
    a->serial = find_phone(&a->at, given ? serial : from_variable ? variable : NULL, e);
    if (a->serial == NULL) {
        if (from_variable)
            fy_ctx(e, "ANDROID_SERIAL");
        goto fail;
    }
    fy_quote(a->name, sizeof a->name, fy_span_of(a->serial));
    fy_str_printf(&request, "host-serial:%s:features", a->serial);
    if (request.oom) {
        fy_nomem(e);
        goto fail;
    }
    a->phone = ask_text(&a->at, request.ptr, true, e);
    a->server = a->phone != NULL ? ask_text(&a->at, "host:host-features", false, e) : NULL;
    if (a->server == NULL) {
        fy_adb_ctx(a->serial, "asking for its features", e);
        goto fail;
    }
    if (!fy_adb_in_list(a->phone, "shell_v2")) {
        fy_fail(e, FY_EDEVICE,
                "no shell v2: its adb daemon would lose the exit status of a command; Android 7 "
                "and later have it");
        fy_adb_ctx(a->serial, NULL, e);
        goto fail;
    }
    fy_str_release(&request);
    return a;
fail:
    fy_str_release(&request);
    fy_adb_close(a);
    return NULL;
}

void fy_adb_close(fy_adb *a)
{
    if (a == NULL)
        return;
    free(a->serial);
    free(a->phone);
    free(a->server);
    free(a);
}

const char *fy_adb_serial(const fy_adb *a)
{
    return a->serial;
}

const char *fy_adb_name(const fy_adb *a)
{
    return a->name;
}

bool fy_adb_has(const fy_adb *a, const char *feature)
{
    return fy_adb_in_list(a->phone, feature) && fy_adb_in_list(a->server, feature);
}

/* --- ports -------------------------------------------------------------------------------------
 */

/* The server says OKAY to the request, then to its result; a refusal of either is about ports. */
static int forwarding(const fy_adb *a, fy_adb_link *l, const char *request, fy_err *e)
{
    if (reach(l, &a->at, NULL, e) != 0 || fy_adb_ask(l, request, false, e) != 0)
        return -1;
    return fy_adb_take_okay(l, false, e);
}

int fy_adb_forward(const fy_adb *a, uint16_t host, uint16_t device, uint16_t *bound, fy_err *e)
{
    fy_adb_link l = {.fd = -1};
    fy_str request = {0}, port = {0};
    fy_str_printf(&request, "host-serial:%s:forward:tcp:%u;tcp:%u", a->serial, host, device);
    int rc = request.oom ? fy_nomem(e) : forwarding(a, &l, request.ptr, e);
    unsigned long taken = host;
    if (rc == 0 && host == 0) {
        rc = fy_adb_read_text(&l.source, &port, e);
        taken = strtoul(fy_str_z(&port), NULL, 10);
        if (rc == 0 && (taken == 0 || taken > UINT16_MAX))
            rc = fy_fail(e, FY_EDEVICE, "the adb server names no port");
    }
    fy_adb_hang_up(&l);
    fy_str_release(&request);
    fy_str_release(&port);
    if (rc == 0)
        *bound = (uint16_t)taken;
    else
        fy_ctx(e, "forwarding port %u of this machine to port %u of the phone", host, device);
    return rc;
}

int fy_adb_forward_remove(const fy_adb *a, uint16_t host, fy_err *e)
{
    fy_adb_link l = {.fd = -1};
    fy_str request = {0};
    fy_str_printf(&request, "host-serial:%s:killforward:tcp:%u", a->serial, host);
    int rc = request.oom ? fy_nomem(e) : forwarding(a, &l, request.ptr, e);
    fy_adb_hang_up(&l);
    fy_str_release(&request);
    return rc == 0 ? 0 : fy_ctx(e, "forwarded port %u", host);
}
