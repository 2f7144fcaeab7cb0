/* Chips and architectures: the SoC table of ExecuTorch's Qualcomm backend, as QNN's headers have it
 * too. Libraries: what PowerServe's `create` takes of the SDK; Stub and Skel are found by name. */
#include "workspace/htp.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/quote.h"

static const struct {
    const char *soc;
    int arch;
} socs[] = {
    {"SM8350", 68},  {"SM7325", 68},   {"QCM6490", 68},  {"SM7350", 68},   {"SC8280X", 68},
    {"SA8295", 68},  {"SA8540", 68},   {"SM8450", 69},   {"SM8475", 69},   {"SM7450", 69},
    {"SM7475", 69},  {"SXR2230P", 69}, {"SM8550", 73},   {"SM8635", 73},   {"SM7635", 73},
    {"SM7675", 73},  {"SM8735", 73},   {"SM6450", 73},   {"SC8380", 73},   {"SA8255", 73},
    {"QCS9100", 73}, {"SSG2115P", 73}, {"SSG2125P", 73}, {"SXR1230P", 73}, {"SM8650", 75},
    {"SM8750", 79},  {"SXR2330P", 79}, {"SM8850", 81},   {"SM8845", 81},   {"SC8480XP", 81},
    {"SA8797", 81},  {"SAR2230P", 81}, {"SW6100", 81},
};

static const int archs[] = {68, 69, 73, 75, 79, 81};

int fy_htp_of_soc(const char *soc)
{
    for (size_t i = 0; i < sizeof socs / sizeof socs[0]; i++) {
        const char *digits = socs[i].soc + strcspn(socs[i].soc, "0123456789");
        if (strcasecmp(soc, socs[i].soc) == 0 || strcasecmp(soc, digits) == 0)
            return socs[i].arch;
    }
    return 0;
}

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
