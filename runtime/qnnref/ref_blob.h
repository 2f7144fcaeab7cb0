/* The container of the reference library: a context as a file, which QNN cannot read.
 *
 *   header   256 bytes, below
 *   values   of static tensors, each once, at multiples of 64 bytes; 4 bit ones two a byte
 *   meta     a stream of little-endian words: the table of values with their encodings, then each
 *            graph with its tensors and nodes
 *
 * The hash is over the whole file with zeros in its place. */
#ifndef FY_QNNREF_REF_BLOB_H
#define FY_QNNREF_REF_BLOB_H

#include <stdint.h>

#define REF_BLOB_TEXT "FYQNNREF: made by ferry's reference library, not readable by QNN\n"

enum { REF_BLOB_VERSION = 1, REF_BLOB_SHARED = 1, REF_NONE32 = -1 };

typedef struct {
    char text[72];
    uint32_t version, flags;
    uint32_t core[3], backend[3], blob[3];
    uint32_t soc, arch, vtcm_mb;
    char build_id[64];
    uint64_t bytes, meta_at;
    uint8_t hash[32];
    uint8_t reserved[12];
} ref_blob_header;

_Static_assert(sizeof(ref_blob_header) == 256, "header of the container");

#endif
