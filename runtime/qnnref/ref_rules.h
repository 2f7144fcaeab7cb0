/* The rule table's form. A row allows its operations, one after another, for each type T.
 *
 * An operand is TYPE[/FORM][?][*] with ? for one that may be absent and * for one that repeats:
 *   TYPE   a name of ref_type_name, or T, or several with | between them
 *   FORM   of a quantized type; without one: scale > 0 and an offset with 0 inside the range
 *     sym      and the offset in the middle of the codes     tanh   1/32768, offset -32768
 *     zero     offset 0                                      same   the encoding of the first input
 *     axis     static, a scale a channel, offsets 0          bw4    the same with 4 bits
 *     lpbq     static, 4 bits with integer factors a block
 *     bias     s32: axis or one scale, scale 0 meaning that of input times weights,
 *              where those have a scale a channel */
#ifndef FY_QNNREF_REF_RULES_H
#define FY_QNNREF_REF_RULES_H

#include <stdint.h>

typedef struct {
    const char *ops;   /* with blanks between them */
    const char *types; /* T; NULL: none */
    const char *in, *out;
    uint8_t arch, sdk; /* floors; 0: none */
    const char *note;  /* NULL, or what is known about it */
} ref_rule;

extern const ref_rule ref_rules[];
extern const uint32_t ref_n_rules;

#endif
