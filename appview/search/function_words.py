"""Words that hold a sentence together and say nothing of its subject, by language.

A question is full of them ("what did she do about the ..."), and the rarer ones among them ("did", "about")
would outweigh the words that matter in memories that are short. They are left out of questions only, where
there are others; documents hold them all, and phrases in quotes ask for them.

Words that say how things stand to each other (before, without, between) tell something, and are none of them.
"""

from __future__ import annotations

from typing import Final

_ENGLISH: Final = """
a an the this that these those and or but nor so if then than as at by for from in into of on to with about
i me my mine myself you your yours yourself he him his himself she her hers herself it its itself we us our
ours ourselves they them their theirs themselves one ones someone something anyone anything what whats which
who whom whose when where why how is are was were be am isnt arent wasnt werent do does did dont doesnt
didnt have has had havent hasnt hadnt will would shall should can could may might must cant couldnt wont
wouldnt shouldnt there here also just very too not no any some all both each either neither such same other
tell give please let
"""
_GERMAN: Final = """
der die das den dem des ein eine einen einem einer eines und oder aber denn sondern wenn dann als wie so zu
zum zur in im an am auf aus bei beim mit von vom fur um ich mich mir mein meine meinen meiner du dich dir
dein deine er ihn ihm sein seine seinen sie ihr ihre ihren es wir uns unser unsere euch euer man was wer wen
wem wessen welche welcher welches welchen wann wo wohin woher warum wieso weshalb ist sind war waren bin
bist gewesen wird werden wurde wurden habe hast hat haben hatte hatten kann konnen konnte soll sollen sollte
muss mussen musste darf will wollen da hier dort auch nur sehr nicht kein keine keinen nichts alle jeder
jede jedes dieser diese dieses bitte
"""
_FRENCH: Final = """
le la les l un une des du de d et ou mais donc or ni car si que qui quoi dont quand comment pourquoi combien
quel quelle quels quelles lequel laquelle a au aux en dans sur par pour avec je me m moi mon ma mes tu te t
toi ton ta tes il elle on se s soi son sa ses nous notre nos vous votre vos ils elles leur leurs lui y ce
cet cette ces c cela ca est sont etait etaient suis es sommes etes ete etre ai as avons avez ont avait
avaient avoir peut pouvait doit ne n pas plus aussi tres tout toute tous toutes meme
"""
_SPANISH: Final = """
el la los las lo un una unos unas de del a al y e o u pero ni si que quien quienes cual cuales cuyo cuando
donde adonde como cuanto cuantos porque por para con en yo me mi mis tu te ti tus usted ustedes nosotros nos
nuestro nuestra vosotros os ella ello ellos ellas se le les su sus este esta esto estos estas ese esa eso
esos esas aquel aquella es son era eran fue fueron ser sido soy eres somos estan estaba estar ha han he
hemos habia haber hay puede podia debe no mas muy tambien todo toda todos todas
"""
_ITALIAN: Final = """
il lo la i gli le l un uno una di del dello della dei degli delle d a al allo alla ai agli alle da dal dallo
dalla dai dagli dalle in nel nello nella nei negli nelle con su sul sullo sulla sui sugli sulle per tra fra
e ed o ma se che chi cui quale quali quando dove come perche quanto quanti io mi me mio mia miei mie tu ti
te tuo tua tuoi tue lui lei egli ella si suo sua suoi sue noi ci nostro nostra voi vi vostro vostra loro
questo questa questi queste quello quella quelli quelle sono era erano sei siamo siete essere stato stata ho
hai ha abbiamo avete hanno aveva avevano avere puo deve non piu molto anche tutto tutta tutti tutte
"""
_PORTUGUESE: Final = """
o a os as um uma uns umas de do da dos das em no na nos nas ao aos por pelo pela pelos pelas para com e ou
mas nem se que quem qual quais cujo quando onde como quanto quantos porque eu me mim meu minha meus minhas
tu te ti teu tua voce voces ele ela eles elas lhe lhes seu sua seus suas nosso nossa este esta isto estes
estas esse essa isso esses essas aquele aquela aquilo sao era eram foi foram ser sido sou somos estar estao
estava ha tem tinha ter havia pode deve nao mais muito tambem todo toda todos todas
"""
_DUTCH: Final = """
de het een en of maar want als dan dat die dit deze te in op aan uit bij met naar van voor om ik mij me mijn
jij je jou jouw hij hem zijn zij ze haar wij we ons onze jullie u uw hun hen er wat wie welke welk wiens
wanneer waar waarheen waarom hoe is was waren ben bent geweest word wordt worden werd werden heb hebt heeft
hebben had hadden kan kunnen kon moet moeten mag wil willen zal zullen zou hier daar ook niet geen niets
alle elke ieder iedere
"""
FUNCTION_WORDS: Final = {
    language: frozenset(words.split())
    for language, words in (
        ("english", _ENGLISH),
        ("german", _GERMAN),
        ("french", _FRENCH),
        ("spanish", _SPANISH),
        ("italian", _ITALIAN),
        ("portuguese", _PORTUGUESE),
        ("dutch", _DUTCH),
    )
}
