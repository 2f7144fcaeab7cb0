/* Architectures: those of QNN's headers. Libraries: what PowerServe's `create` takes of the SDK;
 * Stub and Skel are found by name. */
#include "workspace/npu/htp.h"

#include <string.h>

#include "base/str.h"

static const int archs[] = {68, 69, 73, 75, 79, 81};

int fy_htp_parse(const char *text, int *arch, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    const char *digits = text[0] == 'v' || text[0] == 'V' ? text + 1 : text;
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
        char name[4] = {(char)('0' + archs[i] / 10), (char)('0' + archs[i] % 10)};
        if (strcmp(digits, name) == 0) {
            *arch = archs[i];
            return 0;
        }
    }
    return fy_fail(e, FY_EARG,
                   "'%s' is no known HTP architecture; expected V68, V69, V73, V75, V79 "
                   "or V81",
                   fy_quote(shown, sizeof shown, fy_span_of(text)));
}

#define ARM "lib/aarch64-android"
#define DSP "lib/hexagon-v%d/unsigned"

const fy_htp_lib fy_htp_libs[] = {
    {"libQnnHtp.so", ARM, 0, false, false},
    {"libQnnSystem.so", ARM, 0, false, false},
    {"libQnnHtpV%dStub.so", ARM, 0, false, false},
    {"libQnnHtpV%dSkel.so", DSP, 0, true, false},
    {"libQnnHtpV%d.so", DSP, 0, true, true},
    {"libQnnHexagonSkel_dspApp.so", DSP, 79, true, true},
    {NULL, NULL, 0, false, false},
};
