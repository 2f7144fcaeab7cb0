/* What a phone says about itself, a table of quirks, and the workspace.json that it holds: nothing
 * of it crashes, and what is shown is fit for a terminal. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "workspace/phone/doctor.h"
#include "workspace/phone/phone_workspace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_report(const char *text, size_t n, bool with_workspace)
{
    fy_doctor_report r = {0};
    fy_facts_parse(text, n, &r.facts);
    if (with_workspace)
        r.need = (fy_need){.dir = strdup("d"),
                           .name = strdup("d"),
                           .weights = 1 << 30,
                           .kv = 1 << 28,
                           .bytes = 1 << 30,
                           .npu = true,
                           .npu_arch = 75};
    r.probe.tried = true;
    r.probe.status = 126;
    memcpy(r.probe.text, text, n < sizeof r.probe.text - 1 ? n : sizeof r.probe.text - 1);
    fy_doctor_checks(&r);
    if (r.n < 10)
        abort();
    for (size_t i = 0; i < r.n; i++) {
        for (const char *p = r.check[i].found; *p != '\0'; p++) {
            if ((unsigned char)*p < ' ' || *p == 0x7f)
                abort();
        }
    }
    fy_doctor_release(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    fy_quirks q = {0};
    char *exec = NULL;
    check_report(text, size, false);
    check_report(text, size, true);
    if (fy_quirks_parse(&q, text, size, "quirks", NULL) == 0) {
        fy_facts f;
        const fy_need none = {0};
        fy_facts_parse("ro.soc.model=SM8650\n", 20, &f);
        f.htp = 75;
        for (size_t i = 0; i < q.n; i++)
            fy_quirk_fits(&q.row[i], &f, &none);
    }
    fy_quirks_release(&q);
    if (fy_workspace_exec((fy_span){text, size}, &exec, NULL) == 0)
        free(exec);
    return 0;
}
