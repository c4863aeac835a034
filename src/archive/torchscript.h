/* archive/torchscript.h -- reading TorchScript archives (.pt).
 *
 * Records (docs/formats.md): data.pkl is the root module, code/ its types, constants.pkl what the
 * code calls CONSTANTS.cN.  The version record determines which upgraders apply. */
#ifndef RUSH_ARCHIVE_TORCHSCRIPT_H
#define RUSH_ARCHIVE_TORCHSCRIPT_H

#include "module/module.h"
#include "formats/zip.h"
#include "script/print/print.h"

/* Fill program, object and format of `m`.  `meta`: tensors have no data. */
void torchscript_load(session *s, zip_archive *z, bool meta, module *m);
/* Load a torch.save archive of plain data: its data.pkl as a value, deferred to the session.  With
 * `takes_instances` objects of unknown classes become containers of their content; otherwise they
 * are refused. */
rush_value torchscript_load_value(session *s, zip_archive *z, type_store *types,
                                  bool takes_instances);

/* Read all of a code record's debug_pkl (script/print/print.h's rows, by rising offset; the session
 * owns their sources). */
uint32_t torchscript_origins(session *s, const zip_archive *z, const char *record,
                             script_row **out);
/* Find the author's text behind a range of archived code (debug_pkl), for messages.  Returns false
 * if it is unknown; *src is new. */
bool torchscript_original(call_ctx *cx, const zip_archive *z, const source_range *at,
                          source_range *out, source **src);

#endif
