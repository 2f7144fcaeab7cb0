/* Directory of a zip archive with stored entries, as PyTorch writes its checkpoints: where each
 * entry's bytes lie. Compressed entries are listed without them. Nothing is unpacked or copied;
 * only the directory at the end of the archive and the entries' headers are touched.
 *
 * Read with fy_zip_dir_read from the bytes of the whole archive, which must outlive the directory;
 * zero-initialise before, release after (also after a failure). Sizes come from the central
 * directory: with data descriptors the local headers hold none. Refused are encrypted
 * entries, archives of several parts, entries that reach beyond the end of the file, and two
 * entries of one name. Checksums are not computed.
 * Source: PKWARE APPNOTE.TXT 6.3.10, sections 4.3 and 4.5.3. */
#ifndef FY_FORMAT_ZIP_DIR_H
#define FY_FORMAT_ZIP_DIR_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/names.h"
#include "base/str.h"

typedef struct {
    fy_span name;        /* view of the archive */
    const uint8_t *data; /* view of the archive; NULL: compressed */
    uint64_t bytes;
    uint16_t method; /* of compression; 0: stored */
} fy_zip_entry;

typedef struct {
    fy_zip_entry *entries; /* owned; in the order of the directory */
    size_t n, cap;
    fy_names index; /* name -> entry */
} fy_zip_dir;

int fy_zip_dir_read(fy_zip_dir *z, const void *p, size_t n, fy_err *e);
void fy_zip_dir_release(fy_zip_dir *z);

/* Refuses an entry that is compressed, and tells how to store it. */
int fy_zip_need_stored(const fy_zip_entry *entry, fy_err *e);

const fy_zip_entry *fy_zip_dir_find(const fy_zip_dir *z, fy_span name); /* NULL when absent */

#endif
