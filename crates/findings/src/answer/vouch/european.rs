//! Words of other European languages that may stand in an approving answer. The rule of the English
//! list holds here too: no word for a defect, a part, a time, a person, a limit or a question.

use super::Vocabulary;

pub(super) const ALL: [Vocabulary; 6] = [GERMAN, FRENCH, SPANISH, PORTUGUESE, ITALIAN, RUSSIAN];

const GERMAN: Vocabulary = Vocabulary {
    good: "
gut, gute, guter, gutes, guten, sauber, saubere, sauberer, sauberes, danke, vollständig, vollständige, bestanden, grün, klar, klare, klarer, klares, korrekt, korrekte, korrekter, prima, schön, schöne, schöner, passt, verständlich, verständliche, erfüllt, getestet, abgedeckt, dokumentiert, umgesetzt, geprüft, solide, einwandfrei, lesbar, lesbare, lesbarer, richtig, richtige, sinnvoll, sinnvolle, super, ordentlich, ordentliche, konsistent, laufen, laufen durch, läuft durch, sind grün, ist grün, entspricht, entsprechen, folgt den konventionen, folgen den konventionen, folgt dem stil, decken, deckt, ausgezeichnet, perfekt, lgtm, ok, ja, genehmigt, freigegeben, begrenzt, bleibt unverändert, ist unverändert, nachvollziehbar, gut getestet, gut strukturiert, kleine änderung, kleine saubere änderung, rückwärtskompatibel, sicher",
    plain: "
der, die, das, den, dem, des, ein, eine, einen, einer, eines, es, sie, ist, sind, wird, hat, haben, auch, sehr, insgesamt, alle, alles, allen, aller, jede, jeder, jedes, beide, neue, neuen, neuer, neues, ganze, ganzen, von, im, in, zum, mit guten, mit klaren, mit sauberen, mit tests, änderung, änderungen, code, diff, commit, test, tests, datei, dateien, modul, module, funktion, funktionen, methode, methoden, umsetzung, implementierung, lösung, ansatz, struktur, logik, verhalten, ticket, aufgabe, anforderung, anforderungen, akzeptanzkriterien, kriterien, kriterium, dokumentation, namen, benennung, stil, konventionen, schnittstelle, öffentliche schnittstelle, fehlerfall, fehlerfälle, fehlerbehandlung, randfälle, randfall, testabdeckung, schleife, qualität, codequalität, lesbarkeit, pipeline, ci, build, gut und, arbeit, ab, kleine, kleiner",
    verbs: "ist, sind, wird, hat, haben",
    orders: "test, teste, folgt",
    orders_before: ("", ""),
    joins: "und, sowie",
    idioms: "
keine/keinerlei/ich_habe_keine/es_gibt_keine befunde/probleme/fehler/mängel/einwände/anmerkungen/beanstandungen/auffälligkeiten gefunden/festgestellt/entdeckt/mehr?
nichts zu beanstanden/bemängeln/ergänzen/ändern/verbessern
keine änderungen/änderung/weiteren_änderungen nötig/erforderlich/notwendig
ich habe alle/sämtliche dateien/änderungen/zeilen gelesen/geprüft/durchgesehen
ich habe den_ganzen/den_gesamten/den_kompletten diff/code/commit gelesen/geprüft/durchgesehen
ich habe die_ganze/die_gesamte/die_komplette/die änderung gelesen/geprüft/durchgesehen
alle/die tests/prüfungen ausgeführt
ich_habe die/alle tests/prüfungen ausgeführt
ich_habe_alle_dateien_gelesen und die/alle tests ausgeführt
die/alle befunde/anmerkungen/punkte aus/der? runde_#/der_ersten_runde/der_letzten_runde? sind behoben/erledigt
das/die passwort/passwörter wird/werden nicht mehr? protokolliert
kann gemergt/gemerged/übernommen/zusammengeführt werden
bereit zum mergen/merge
sieht/das_sieht/alles_sieht/die_änderung_sieht gut/sauber aus
die_tests/tests decken_die_änderung ab
ohne_die_änderung schlägt_der_neue_test fehl
mit_ihr läuft_er durch
das ist getestet
wenn die_datei/der_wert fehlt wird der_standardwert verwendet
gute/schöne/saubere arbeit
vielen dank",
};

const FRENCH: Vocabulary = Vocabulary {
    good: "
bien, bon, bonne, bons, bonnes, merci, propre, propres, correct, correcte, corrects, correctes, parfait, parfaite, clair, claire, clairs, claires, lisible, lisibles, testé, testée, testés, testées, couvert, couverte, couverts, couvertes, documenté, documentée, passent, passent tous, respecté, respectée, respectés, respectées, complet, complète, complets, complètes, solide, solides, excellent, excellente, rempli, remplis, satisfait, satisfaits, cohérent, cohérente, cohérents, couvrent, couvre, suit les conventions, suivent les conventions, suit le style, correspond, correspondent, respecte, respectent, approuvé, approuvée, oui, ok, lgtm, bornée, borné, bien testé, bien testée, bien structuré, bien écrit, fonctionne, au vert",
    plain: "
le, la, les, l, un, une, des, du, de, et, il, elle, ce, cette, ces, c'est, est, sont, ont été, a été, très, dans, tout, toute, tous, toutes, nouveau, nouveaux, nouvelle, nouvelles, code, diff, commit, modification, modifications, changement, changements, test, tests, fichier, fichiers, module, modules, fonction, fonctions, implémentation, solution, approche, structure, logique, ticket, critères, critère, d'acceptation, documentation, noms, nommage, style, conventions, interface, qualité, lisibilité, couverture, boucle, cas, cas limites, cas d'erreur, le cas d'erreur, l'ensemble, gestion, gestion des erreurs, travail, beau travail, avec de bons tests, au, aux",
    verbs: "est, sont, c'est",
    orders: "test, teste, note",
    orders_before: ("", ""),
    joins: "et",
    idioms: "
rien à signaler/ajouter/corriger/redire/changer
aucun/aucune problème/souci/remarque/erreur/anomalie/objection/défaut/commentaire trouvé/trouvée/détecté/détectée/constaté/relevé/relevée/particulier?
je_n'ai trouvé? aucun/aucune problème/remarque/erreur/objection/défaut/anomalie trouvé/trouvée?
pas de problème/souci/remarque/objection trouvé/trouvée?
sans problème/remarque/souci
j'ai lu/relu/vérifié/examiné tous_les/toutes_les fichiers/modifications/lignes/changements
j'ai lu/relu/vérifié/examiné tout le? code/diff/commit/changement
lancé/exécuté les/tous_les tests
j'ai lancé/exécuté les/tous_les tests
les/toutes_les remarques/points du/de? premier_tour/tour_#/tour_précédent/la_revue_précédente? sont/ont_été corrigées/corrigés/résolues/résolus
le_mot_de_passe n'est plus/pas journalisé
c'est testé
si le_fichier est absent la_valeur_par_défaut est utilisée
prêt à/pour fusionner/la_fusion/être_fusionné
peut être fusionné
bon/beau/excellent travail
j'approuve ce/cette/le/la? changement/modification/commit?
merci beaucoup?",
};

const SPANISH: Vocabulary = Vocabulary {
    good: "
bien, buen, bueno, buena, buenos, buenas, gracias, limpio, limpia, limpios, correcto, correcta, correctos, correctas, excelente, perfecto, perfecta, claro, clara, claros, claras, legible, legibles, probado, probada, probados, probadas, cubierto, cubierta, cubiertos, cubiertas, documentado, documentada, pasan, pasan todas, cumple, cumplen, cumplido, cumplidos, completo, completa, completos, completas, sólido, sólida, coherente, coherentes, genial, adecuado, adecuada, cubren, cubre, sigue las convenciones, siguen las convenciones, sigue el estilo, respeta, respetan, corresponde, aprobado, aprobada, sí, ok, lgtm, funciona, en verde, bien probado, bien estructurado, bien escrito, se cumplen, implementado, implementada",
    plain: "
el, la, los, las, un, una, de, del, es, son, está, están, ha sido, han sido, muy, en, este, esta, estos, estas, todo, toda, todos, todas, nuevo, nuevos, nueva, nuevas, código, diff, commit, cambio, cambios, prueba, pruebas, test, tests, archivo, archivos, módulo, módulos, función, funciones, implementación, solución, enfoque, estructura, lógica, ticket, tarea, criterios, criterio, aceptación, requisitos, documentación, nombres, estilo, convenciones, interfaz, calidad, legibilidad, cobertura, bucle, casos, caso, casos límite, manejo de errores, trabajo, con buenas, con buenos, con pruebas, también",
    verbs: "es, son, está, están",
    orders: "prueba, completa, sigue, limpia, corresponde",
    orders_before: ("cubre, respeta, cumple", "el, la, los, las, todos, todas, un, una, este, esta"),
    joins: "y, e",
    idioms: "
sin observaciones/problemas/comentarios/errores/objeciones/hallazgos
no encontré/encontramos/hay/he_encontrado/veo/tengo ningún/ninguna? problemas/problema/errores/error/objeciones/observaciones/hallazgos/defectos
ningún/ninguna problema/error/objeción/observación/hallazgo encontrado/encontrada?
nada que añadir/agregar/corregir/cambiar/señalar/objetar
leí/revisé/he_leído/he_revisado/verifiqué todos_los/todas_las/cada archivos/archivo/cambios/cambio/líneas/línea
leí/revisé/he_leído/he_revisado todo el? código/diff/cambio/commit
ejecuté/he_ejecutado las/todas_las/los/todos_los pruebas/tests
los/todos_los/las hallazgos/comentarios/observaciones de la ronda_#/ronda_anterior/primera_ronda? están/fueron/han_sido corregidos/corregidas/resueltos/resueltas
la_contraseña ya_no/no se escribe/registra en_el_registro?
está probado
si falta el_archivo se usa el_valor_por_defecto
listo/lista para fusionar/la_fusión/ser_fusionado
se_puede/puede fusionar/fusionarse
buen/excelente/gran trabajo
muchas gracias
apruebo este/el/los? cambio/commit/cambios?",
};

const PORTUGUESE: Vocabulary = Vocabulary {
    good: "
bom, boa, bons, boas, bem, obrigado, obrigada, limpo, limpa, limpos, correto, correta, corretos, corretas, perfeito, perfeita, claro, clara, claros, claras, legível, legíveis, testado, testada, testados, testadas, coberto, coberta, cobertos, cobertas, documentado, documentada, passam, passam todos, passaram, cumpre, cumprem, atendidos, atendido, atende, atendem, completo, completa, completos, completas, sólido, sólida, coerente, ótimo, ótima, adequado, adequada, cobrem, cobre, segue as convenções, seguem as convenções, segue o estilo, respeita, respeitam, corresponde, aprovado, aprovada, sim, ok, lgtm, funciona, bem testado, bem estruturado, bem escrito, excelente, implementado, implementada",
    plain: "
o, a, os, as, um, uma, de, do, da, dos, das, é, são, está, estão, foi, foram, muito, em, no código, no commit, este, esta, estes, estas, todo, toda, todos, todas, tudo, novo, novos, nova, novas, código, diff, commit, alteração, alterações, mudança, mudanças, teste, testes, arquivo, arquivos, módulo, módulos, função, funções, implementação, solução, abordagem, estrutura, lógica, ticket, tarefa, critérios, critério, de aceitação, requisitos, documentação, nomes, estilo, convenções, interface, qualidade, legibilidade, cobertura, casos, caso, casos de borda, tratamento de erros, trabalho, com bons, com boas, com testes, também",
    verbs: "é, são, está, estão, foi, foram",
    orders: "teste, testes, completa, limpa, segue, corresponde",
    orders_before: ("cobre, respeita, cumpre, atende", "o, a, os, as, todos, todas, um, uma, este, esta"),
    joins: "e",
    idioms: "
sem observações/problemas/comentários/erros/objeções/ressalvas/achados
não encontrei/há/encontramos/vejo/tenho nenhum/nenhuma? problemas/problema/erros/erro/objeções/observações/defeitos/achados
nenhum/nenhuma problema/erro/objeção/observação/achado encontrado/encontrada?
nada a acrescentar/corrigir/mudar/alterar/apontar/declarar
li/revisei/verifiquei/eu_li todos_os/todas_as/cada arquivos/arquivo/alterações/mudanças/linhas
li/revisei/verifiquei todo o? código/diff/commit
executei/rodei os/todos_os testes
os/todos_os/as achados/comentários/apontamentos/observações da rodada_#/rodada_anterior/primeira_rodada? foram/estão corrigidos/corrigidas/resolvidos/resolvidas
a_senha não é mais? registrada
há um_teste/testes
se o_arquivo não existe o_valor_padrão é usado
pronto/pronta para fusão/merge/mesclar/o_merge
pode ser mesclado/mesclada/integrado
bom/ótimo/excelente trabalho
muito obrigado
aprovo esta/este/a/o? alteração/mudança/commit?",
};

const ITALIAN: Vocabulary = Vocabulary {
    good: "
bene, ben, buono, buona, buon, buoni, buone, grazie, pulito, pulita, puliti, corretto, corretta, corretti, corrette, perfetto, perfetta, chiaro, chiara, chiari, chiare, leggibile, leggibili, testato, testata, testati, coperto, coperta, coperti, documentato, documentata, passano, passano tutti, soddisfatti, soddisfatto, rispettati, rispettate, completo, completa, completi, complete, solido, solida, ottimo, ottima, adeguato, adeguata, coprono, copre, segue le convenzioni, seguono le convenzioni, segue lo stile, rispetta, rispettano, corrisponde, approvato, approvata, sì, ok, lgtm, funziona, ben testato, ben strutturato, ben scritto, eccellente, implementato, implementata, coerente",
    plain: "
il, lo, la, i, gli, le, un, una, di, del, della, dei, delle, è, sono, è stato, è stata, molto, in, nel, nella, questo, questa, questi, tutto, tutta, tutti, tutte, nuovo, nuovi, nuova, nuove, codice, diff, commit, modifica, modifiche, test, file, modulo, moduli, funzione, funzioni, implementazione, soluzione, approccio, struttura, logica, ticket, criteri, criterio, di accettazione, requisiti, documentazione, nomi, stile, convenzioni, interfaccia, qualità, leggibilità, copertura, casi, caso, casi limite, gestione degli errori, lavoro, con buoni, con test, anche",
    verbs: "è, sono",
    orders: "completa, testa, segue, modifica, test, completate, documenta",
    orders_before: ("copre, rispetta, corrette, complete", "il, lo, la, i, gli, le, tutti, tutte, un, una"),
    joins: "e, ed",
    idioms: "
nessun/nessuna problema/errore/osservazione/obiezione/rilievo/difetto trovato/trovata/riscontrato/rilevato?
non ho trovato/riscontrato/rilevato problemi/errori/difetti/nessun_problema
niente/nulla da segnalare/aggiungere/correggere/cambiare/eccepire
senza osservazioni/problemi/rilievi
ho letto/controllato/verificato/esaminato tutti_i/tutte_le file/modifiche/righe
ho letto/controllato/verificato/esaminato tutto il? codice/diff/commit
eseguito/ho_eseguito i/tutti_i test
ho_letto_tutti_i_file ed/e eseguito i/tutti_i test
la_password non viene più? registrata
pronto/pronta per il_merge/la_fusione/il_rilascio
può essere unito/unita/fusa
ottimo/buon/bel lavoro
approvo questa/questo/la? modifica/commit?",
};

const RUSSIAN: Vocabulary = Vocabulary {
    good: "
хорошо, хороший, хорошая, хорошие, отлично, отличный, отличная, отличные, спасибо, чисто, чистый, чистая, корректно, корректный, корректная, корректны, корректен, пройдены, пройден, проходят, проходит, успешно, понятный, понятная, понятно, понятны, понятен, читаемый, читаемо, протестирован, протестировано, протестированы, протестирована, покрыт, покрыто, покрыты, покрывают, покрывает, документирован, документировано, задокументировано, выполнены, выполнен, выполнено, правильно, правильный, правильная, полностью, аккуратно, аккуратный, аккуратная, соответствует, соответствуют, хорошо протестирован, хорошо покрыт, одобрено, одобряю, да, ок, lgtm, работает, реализовано, реализована",
    plain: "
и, это, этот, эта, эти, в, на, очень, также, весь, вся, всё, все, всех, новый, новые, новых, новая, код, кода, коде, изменение, изменения, изменений, изменением, дифф, диф, коммит, тест, тесты, тестов, тестами, тестом, файл, файлы, файлов, модуль, модули, функция, функции, реализация, решение, структура, логика, тикет, задача, задачи, задаче, критерии, критерий, приёмки, приемки, требования, требованиям, документация, имена, стиль, стилю, соглашениям, качество, читаемость, покрытие, работа, краевые случаи, граничные случаи, обработка ошибок, интерфейс",
    verbs: "",
    orders: "",
    orders_before: ("", ""),
    joins: "и, а также",
    idioms: "
замечаний/проблем/ошибок/возражений/вопросов/дефектов нет/не_найдено/не_обнаружено/не_нашёл/не_нашел/не_вижу
нет замечаний/проблем/возражений/вопросов
без замечаний/ошибок/проблем/вопросов
проблем/ошибок в_коде? не_найдено/не_обнаружено
не_нашёл/не_нашел/не_вижу/не_обнаружил проблем/ошибок/замечаний
нечего добавить/исправлять/исправить
я? прочитал/прочитала/просмотрел/просмотрела/проверил/проверила все/весь/всё файлы/файлов/дифф/диф/код/изменения/строки/коммит
я? прочитал/просмотрел/проверил все файлы и запустил все? тесты
я? запустил/запустила тесты/все_тесты
все/замечания? замечания? первого_раунда/прошлого_раунда/раунда_#? исправлены/устранены
пароль больше? не пишется/логируется в_журнал/в_лог?
если файла нет используется значение_по_умолчанию
это проверено тестом/тестами
готово/готов/можно к_слиянию/к_мержу/сливать/мержить
отличная/хорошая работа
спасибо за работу/изменения/изменение",
};
