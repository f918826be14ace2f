#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# ghostscript: pages of curves, shadings and text to an image, to PDF, and that PDF to an image.

# shellcheck source=tests/programs/common.sh
. "$(dirname -- "$0")/common.sh"

prepare() {
    needs gs
    cat >pages.ps <<'PS'
%!PS
/Helvetica findfont 9 scalefont setfont
1 1 8 {
  /page exch def
  0 1 500 {
    /i exch def
    i 37 mul page 11 mul add 600 mod i 53 mul 780 mod moveto
    i 91 mul 600 mod i 17 mul 800 mod i 29 mul 600 mod page i mul 800 mod i 7 mul 600 mod i 3 mul 800 mod curveto
    i 255 mod 255 div page 8 div i 100 mod 100 div setrgbcolor
    i 3 mod 0 eq { fill } { stroke } ifelse
    i 5 mod 0 eq { 20 i 2 mod 300 mul add i 780 mod moveto i 20 string cvs show ( words on the page) show } if
  } for
  << /ShadingType 2 /ColorSpace /DeviceRGB /Coords [0 0 600 800] /Domain [0 1]
     /Function << /FunctionType 2 /Domain [0 1] /C0 [1 0 page 9 div] /C1 [0 1 0] /N 1.5 >> >>
  gsave 100 100 200 200 rectclip shfill grestore
  showpage
} for
PS
}

run() {
    gs -q -dSAFER -dBATCH -dNOPAUSE -sDEVICE=png16m -r100 -dTextAlphaBits=4 -dGraphicsAlphaBits=4 \
        -sOutputFile=direct-%d.png ../pages.ps
    gs -q -dSAFER -dBATCH -dNOPAUSE -sDEVICE=pdfwrite -sOutputFile=pages.pdf ../pages.ps
    gs -q -dSAFER -dBATCH -dNOPAUSE -sDEVICE=ppmraw -r72 -dNumRenderingThreads=3 -dMaxBitmap=0 \
        -sOutputFile=pdf-%d.ppm pages.pdf
    cat direct-*.png | sha256sum
    cat pdf-*.ppm | sha256sum
}

main "$@"
