/* export/text.h -- our own text of exported programs, without a loss: what `show --ir` prints.
 *
 *     exported_program "model" {
 *       schema 8.20
 *       range "s77" used 2 none
 *       input user tensor "x"
 *       output user tensor "add"
 *       graph {
 *         %x = placeholder "x" val tensor float32 [<"Symbol('s77', integer=True)", 3>, 4] ...
 *         %add = call "torch.ops.aten.add.Tensor" (%x, 1) val tensor ... meta {"stack_trace": ...}
 *         %output = output ((%add))
 *       }
 *     }
 *
 * Every word, name and number of program.h and fx/graph.h is in it: a program that is printed and
 * parsed is written to the same bytes.  Texts are JSON's strings; what a file holds as JSON
 * (metadata, tree specs, members that are not known here) is JSON here too, as it was.  Line breaks
 * and blanks between words mean nothing.
 *
 * Weights are not in it: a parsed program is given those of an archive (exported_program.h).
 *
 * Hostile text is normal: nesting is bounded by the session, numbers are checked, values are
 * defined once and before their use, and an error tells line and column.
 *
 * Cost: O(text). */
#ifndef RUSH_EXPORT_TEXT_H
#define RUSH_EXPORT_TEXT_H

#include "export/program.h"

void exported_print_text(session *s, text_buf *out, const exported_program *p);
/* Parse; `place` names the text in errors.  Released when the session ends unless session_keep is
 * called. */
exported_program *exported_parse_text(session *s, const char *place, str text);

/* -- Words (shared by printer and parser) ------------------------------------------------------ */

extern const char *const exported_input_words[];  /* by exported_input_kind */
extern const char *const exported_output_words[]; /* by exported_output_kind */
extern const char *const exported_arg_words[];    /* by exported_arg_kind */
#define EXPORTED_N_INPUT_KINDS (INPUT_TOKEN + 1)
#define EXPORTED_N_OUTPUT_KINDS (EXPORTED_TOKEN + 1)
#define EXPORTED_N_ARG_KINDS (ARG_TOKEN + 1)

#endif
