/* The signature over manifest.json and the public key that came with it: their bytes, and whether
 * they fit together. Whom to trust is another question, which only the host asks
 * (workspace/pack/sign.h). */
#ifndef FY_BUNDLE_SEAL_H
#define FY_BUNDLE_SEAL_H

#include <stdbool.h>

#include "base/err.h"
#include "base/file.h"
#include "base/str.h"
#include "bundle/manifest_read.h"
#include "bundle/public_key.h"

/* has_sig, has_key false: there is none. fy_seal_open reads each file once, into memory: every check
 * that is made of a seal is made of the same bytes. */
typedef struct {
    fy_span manifest, sig, key; /* views */
    bool has_sig, has_key;
    fy_map map; /* owned, as are the next two: of fy_seal_open, else zeroed */
    fy_str sig_text, key_text;
} fy_seal;

/* Of a directory. A signature or key of more bytes than it can have is cut behind one too many. */
int fy_seal_open(const char *dir, fy_seal *out, fy_err *e);
void fy_seal_close(fy_seal *s);

/* FY_EVERIFY, naming the file, when one of the two is not what it has to be: a key without a
 * signature, the wrong number of bytes, not a key, a signature that does not fit. The key is set
 * when has_key. */
int fy_seal_check(const fy_seal *s, uint8_t key[FY_PUBLIC_KEY_BYTES], fy_err *e);

/* What can be said before any signature is computed; the rest of fy_seal_check. */
int fy_seal_check_form(const fy_seal *s, uint8_t key[FY_PUBLIC_KEY_BYTES], fy_err *e);
int fy_seal_does_not_fit(fy_err *e);

#endif
