/* archive/torchscript.h -- reading TorchScript archives (.pt).
 *
 * Records (docs/formats.md): data.pkl is the root module, code/ its types, constants.pkl what the
 * code calls CONSTANTS.cN.  The version record says which upgraders apply. */
#ifndef RUSH_ARCHIVE_TORCHSCRIPT_H
#define RUSH_ARCHIVE_TORCHSCRIPT_H

#include "module/module.h"
#include "formats/zip.h"
#include "script/print/print.h"

/* Fills program, object and format of `m`.  `meta`: tensors have no data. */
void torchscript_load(session *s, zip_archive *z, bool meta, module *m);
/* A torch.save archive of plain data: its data.pkl as a value, deferred to the session.  With
 * `takes_instances` objects of unknown classes are containers of what they hold; else they are
 * refused. */
rush_value torchscript_load_value(session *s, zip_archive *z, type_store *types,
                                  bool takes_instances);

/* All that debug_pkl says of a code record (script/print/print.h's rows, by rising offset; the
 * session owns their sources). */
uint32_t torchscript_origins(session *s, const zip_archive *z, const char *record,
                             script_row **out);
/* The author's text behind a range of archived code (debug_pkl), for messages.  false: not known;
 * *src is new. */
bool torchscript_original(call_ctx *cx, const zip_archive *z, const source_range *at,
                          source_range *out, source **src);

#endif
