/* Qualcomm's NPU (HTP): its architectures, and which libraries of the vendor's SDK a phone of one
 * needs. Which chip has which: soc_table.h. */
#ifndef FY_WORKSPACE_HTP_H
#define FY_WORKSPACE_HTP_H

#include <stdbool.h>

#include "base/err.h"

/* "V75", "v75" or "75" -> 75; FY_EARG lists the known ones. */
int fy_htp_parse(const char *text, int *arch, fy_err *e);

typedef struct {
    const char *name; /* "libQnnHtpV%dSkel.so" */
    const char *dir;  /* in the SDK: "lib/hexagon-v%d/unsigned" */
    int only;         /* for this architecture; 0: for all */
    bool dsp;         /* built for the DSP, else for aarch64 */
    bool optional;    /* newer or older SDKs lack it */
} fy_htp_lib;
extern const fy_htp_lib fy_htp_libs[]; /* up to a name NULL */

#endif
